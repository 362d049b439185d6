"""What a look at a machine says of deployments: parsers over what machines print, hostile ones too."""

from __future__ import annotations

import json

from canserve.facts import Cause, Missing
from canserve.run.looking import Question, understood
from canserve.transport.frames import Answer
from canserve.transport.reach import Look

QUESTION = Question("/s", None, ("docker",), (8000, 8001))


def look(claims: str = "", processes: str = "", docker: Answer | str = "", ports: str = "") -> Look:
    def answer(text: str) -> Answer:
        return Answer(0, text.encode(), "", whole=True)

    held = docker if isinstance(docker, Answer) else answer(docker)
    answers = {
        "claims": answer(claims),
        "processes": answer(processes),
        "docker": held,
        "ports": answer(ports),
    }
    return Look("a", "how", "when", answers)


def container(number: str, run: str = "r1", **state: object) -> str:
    labels = {"canserve.run": run, "canserve.process": number, "canserve.ranks": "0,1"}
    told = {"Status": "running", "ExitCode": 0, "OOMKilled": False} | state
    return f"{json.dumps(f'/canserve-{run}-{number}')} {json.dumps(labels)} {json.dumps(told)}\n"


def test_containers_and_their_last_lines() -> None:
    text = (
        container("1", Status="exited", ExitCode=137, OOMKilled=True)
        + container("0")
        + "log x last of 1\nlog y last of 0\n"
    )
    seen = understood("a", look(docker=text), QUESTION)
    first, second = seen.running
    assert (first.process, first.alive, first.exit, first.state, first.last) == (
        0,
        True,
        None,
        "running",
        "last of 0",
    )
    assert (second.alive, second.exit, second.state) == (False, 137, "exited with 137, out of memory")
    assert first.ranks == "0,1" and first.name == "canserve-r1-0" and second.last == "last of 1"
    assert seen.trouble is None and seen.engine_trouble is None


def test_of_a_created_container_nobody_knows_whether_it_will_run() -> None:
    (one,) = understood("a", look(docker=container("0", Status="created") + "log x \n"), QUESTION).running
    assert (one.alive, one.exit, one.state) == (None, None, "created")


def test_processes() -> None:
    text = (
        "r1\t0\talive\t\t/s/r1/0\tready\n"
        "r1\t1\tdead\t7\t/s/r1/1\tValueError: a\tb\n"
        "r1\t2\tdead\t\t/s/r1/2\t\n"
        "r1\t3\tunseen\t\t/s/r1/3\t\n"
    )
    found = understood("a", look(processes=text), QUESTION).running
    assert [(one.alive, one.exit, one.state) for one in found] == [
        (True, None, "running"), (False, 7, "exited with 7"), (False, None, "killed"), (None, None, "unseen"),
    ]  # fmt: skip
    assert found[1].last == "ValueError: a\tb"


def test_claims_and_ports() -> None:
    text = "accelerator-0 r1 docker ana@desk 2026-11-30T14:40:00Z\nprocessor r2 process ben@desk now\n"
    seen = understood("a", look(claims=text, ports="8000\n"), QUESTION)
    assert [(claim.name, claim.run, claim.program) for claim in seen.claims] == [
        ("accelerator-0", "r1", "docker"), ("processor", "r2", "process"),
    ]  # fmt: skip
    assert seen.claims[0].operator == "ana@desk 2026-11-30T14:40:00Z"
    assert seen.ports == {8000: True, 8001: False}
    assert [c.run for c in understood("a", look(claims=text), Question("/s", "r2")).claims] == ["r2"]


def test_what_is_no_answer_of_ours_is_passed_over() -> None:
    claims = "accelerator-0 ../../etc docker x y\nshort\naccelerator-1 R$(id) docker x y\n"
    processes = "r1\t0\n../x\t0\talive\t\t/s\t\nr1\tx\talive\t\t/s\t\nr1\t0\tnonsense\t\t/s\t\n\x1b[2J\n"
    docker = (
        container("0", run="a/../b") + container("x") + '"a" [] {}\n[[[[\n"a" {} {}\n' + "[" * 100_000 + "\n"
    )
    seen = understood("a", look(claims, processes, docker), QUESTION)
    assert (seen.claims, seen.running) == ((), ())


def test_a_container_engine_that_does_not_answer_is_not_one_without_containers() -> None:
    refused = Answer(1, b"", "Cannot connect to the Docker daemon", whole=True)
    seen = understood("a", look(docker=refused), QUESTION)
    assert seen.trouble is None and seen.engine_trouble == "docker: Cannot connect to the Docker daemon"
    absent = understood("a", look(docker=Answer(3, b"", "", whole=True)), QUESTION)
    assert absent.engine_trouble is None and absent.running == ()


def test_a_machine_that_is_not_reached() -> None:
    why = Missing(Cause.UNREACHED, "a: it does not answer", (), "check that it is up")
    seen = understood("a", Look("a", "how", "when", {}, why), QUESTION)
    assert seen.trouble == "a: it does not answer" and seen.hint == "check that it is up"
    assert seen.ports == {}
