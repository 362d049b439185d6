"""What a report that judges something else says of the machines."""

from __future__ import annotations

from dataclasses import replace

from holders import REFUSED, image, node

from canserve.facts import Cause, Missing
from canserve.plan.offers.unjudged import unjudged
from canserve.probes.machine import read_nodes
from canserve.subjects.host import Container, Environment


def test_what_lies_there_by_kind_and_no_more_than_is_readable() -> None:
    held = [image(f"team/engine:{number}", str(number), size=1000 - number) for number in range(10)]
    runs = Container("docker", "head", "x", "Up", "")
    venv = Environment("/opt/venv/lib/python3.12/site-packages", (("eng", "1"),))
    (line,) = unjudged([node("one", held, [runs], [venv], address="local")])
    assert line.startswith(
        "on the machines, and not judged here: running containers: container://head; images: "
    )
    assert "engine:7 and 2 more; environments: /opt/venv (canserve candidates judges them)" in line


def test_what_could_not_be_listed_is_said_once() -> None:
    (line,) = unjudged([node("one", REFUSED, REFUSED)])
    assert line == "one: containers and images could not be listed: docker ps failed: permission denied"
    gone = node("one")
    down = Missing(Cause.UNREACHED, f"{gone.machine.subject}: nothing answers")
    gone = node("one", down, down, models=down)
    machine = replace(gone.machine, clock_skew=down, environments=down)
    assert list(unjudged([replace(gone, machine=machine)])) == [
        f"{gone.machine.subject}: nothing answers; what was said of it before is taken"
    ]


def test_of_machines_nobody_looked_at_nothing_is_said() -> None:
    assert list(unjudged(read_nodes(["2xprofile:h200"]))) == []
    assert list(unjudged([])) == []
