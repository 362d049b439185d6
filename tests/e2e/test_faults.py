"""Everything that goes wrong while two hosts are put into service: nothing is orphaned, the message names the cause.

The engine is none, but its ranks wait for each other over real connections and say what vLLM says; each test holds it in
a phase and does something to it there. The fixture ``clean`` compares both hosts before and after.
"""

from __future__ import annotations

import signal
import time

import pytest

from e2e.operators import Going, Operator, containers, log, two_ranks, until
from lab.standin_engine import BEFORE, TAG, hold, let_go, load
from lab.two_hosts import Lab

pytestmark = pytest.mark.slow
PHASES = tuple(BEFORE)
HELD = f"docker-daemon:{TAG}@spark-a"
"""The image, where it surely is."""
SOON = ("--patience", "0.1")
"""A machine that cannot be looked at is waited for a tenth of the time."""


def held_in(lab: Lab, operator: Operator, phase: str, *more: str) -> Going:
    """A deployment that begins, up to a phase in which all its ranks stay."""
    for host in lab.hosts:
        hold(host, phase)
    going = operator.begin(*operator.up_words(two_ranks(), *more))
    going.until(f"the second rank is about to be {phase}", lambda: BEFORE[phase] in log(lab.b))
    return going


@pytest.mark.parametrize("phase", PHASES)
def test_a_worker_that_is_killed(ana: Operator, clean: Lab, phase: str) -> None:
    going = held_in(clean, ana, phase)
    (worker,) = containers(clean.b)
    clean.b.docker("kill", worker)
    up, code = going.said()
    assert (up["state"], code, up["undone"], up["left"]) == ("failed", 1, True, []), up
    assert up["because"].startswith("second: process 1 "), up["because"]
    assert "137" in up["because"] or "killed" in up["because"], up["because"]


@pytest.mark.parametrize("phase", ["joining", "weights", "memory"])
def test_a_rank_that_ends_is_cited_with_its_own_first_error(ana: Operator, clean: Lab, phase: str) -> None:
    (clean.b.share / f"fail-{phase}").write_text("ValueError: this rank cannot go on")
    up, code = ana.begin(*ana.up_words(two_ranks())).said()
    assert (up["state"], code, up["undone"], up["left"]) == ("failed", 1, True, []), up
    assert up["because"].startswith("second: process 1 exited with 1"), up["because"]
    assert "ValueError: this rank cannot go on" in up["because"], up["because"]


@pytest.mark.parametrize("phase", PHASES)
def test_ctrl_c_takes_everything_away(ana: Operator, clean: Lab, phase: str) -> None:
    going = held_in(clean, ana, phase)
    going.send(signal.SIGINT)
    up, code = going.said()
    assert (up["state"], code, up["undone"], up["left"]) == ("interrupted", 130, True, []), up


@pytest.mark.parametrize("phase", PHASES)
def test_an_operator_that_is_killed_leaves_a_run_that_another_ends(
    ana: Operator, ben: Operator, clean: Lab, phase: str
) -> None:
    going = held_in(clean, ana, phase)
    going.kill()
    (one,) = ben.runs()
    assert one["operator"].startswith("ana@"), one
    assert {(each["machine"], each["alive"]) for each in one["processes"]} == {
        ("head", True),
        ("second", True),
    }
    down, code = ben.ask("down", one["run"], on=True)
    assert (down["state"], code, down["left"]) == ("down", 0, [])


@pytest.mark.parametrize(("word", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, None)])
def test_an_operator_who_goes_while_machines_are_looked_at(
    ana: Operator, ben: Operator, clean: Lab, word: signal.Signals, code: int | None
) -> None:
    """A container engine hangs, so that a look goes on; nothing was begun, and nothing is there."""
    since = clean.b.heard()
    clean.a.engine(signal.SIGSTOP)
    going = ana.begin(*ana.up_words(two_ranks()))
    going.until("machines are looked at", lambda: clean.b.sessions(since) > 0)
    going.send(word)
    if code is None:
        going.kill()
    else:
        assert going.said()[1] == code
    clean.a.engine(signal.SIGCONT)
    assert ben.runs() == []


def test_ctrl_c_while_the_image_is_copied(ana: Operator, ben: Operator, clean: Lab) -> None:
    """At once, and with its claims; what came stays half and out of sight, for another try to go on with."""
    clean.b.docker("image", "rm", TAG)
    clean.wires.rate("fabric", "40mbit")
    before = received(clean)
    going = ana.begin(*ana.up_words(two_ranks(), build=HELD))
    going.until("a part of it has come", lambda: received(clean) - before > 4_000_000)
    going.send(signal.SIGINT)
    up, code = going.said()
    assert (up["state"], code, up["undone"], up["left"]) == ("interrupted", 130, True, []), up
    assert clean.b.docker("image", "ls", "-q", TAG) == "" and ben.runs() == []
    clean.b.run("sh", "-c", "rm -rf ~spark/.cache/canserve/incoming")
    load(clean.b)


def test_an_operator_that_is_killed_leaves_a_run_that_comes_up_without_anybody(
    ana: Operator, ben: Operator, clean: Lab
) -> None:
    held_in(clean, ana, "weights").kill()
    for host in clean.hosts:
        let_go(host)
    until("it answers", lambda: bool(ben.runs()[0].get("listens")) or "startup complete" in log(clean.a))
    (one,) = ana.runs()  # the same operator, back again
    assert one["state"] == "running", one
    assert ana.ask("down", one["run"])[1] == 0


@pytest.mark.parametrize("phase", PHASES)
def test_a_cable_that_is_pulled(ana: Operator, clean: Lab, phase: str) -> None:
    going = held_in(clean, ana, phase, *SOON)
    clean.wires.cut("fabric")
    up, code = going.said()
    assert up["state"] in ("failed", "stalled") and code == 1, up
    assert "second" in up["because"], up["because"]
    # What cannot be reached cannot be taken away: it is said, and who comes back with a cable ends it.
    assert {one["machine"] for one in up["left"]} == {"second"}, up["left"]
    clean.heal()
    down, code = ana.ask("down", up["run"])
    assert (down["state"], code, down["left"]) == ("down", 0, [])


def test_one_of_two_operators_at_the_same_moment(ana: Operator, ben: Operator, clean: Lab) -> None:
    both = [(one, one.begin(*one.up_words(two_ranks()))) for one in (ana, ben)]
    ends = [(one, *going.said()) for one, going in both]
    up = [(one, said) for one, said, code in ends if code == 0]
    assert len(up) <= 1, ends
    for one, said, code in ends:
        if code:
            assert "is held" in said["because"], said
            assert any(f"{other.name}@" in said["because"] for other in (ana, ben) if other is not one), said
    for one, said in up:
        assert one.ask("down", said["run"])[1] == 0


def test_a_second_operator_while_the_first_still_starts(ana: Operator, ben: Operator, clean: Lab) -> None:
    going = held_in(clean, ana, "weights")
    said, code = ben.begin(*ben.up_words(two_ranks())).said()
    assert code == 1 and "processor is held" in said["because"] and "ana@" in said["because"], said
    for host in clean.hosts:
        let_go(host)
    up, code = going.said()
    assert (up["state"], code) == ("up", 0), up
    assert ana.ask("down", up["run"])[1] == 0


def test_a_port_that_is_taken_while_it_starts(ana: Operator, clean: Lab) -> None:
    """Free when it was looked at, taken when the engine binds it: the engine's own words."""
    going = held_in(clean, ana, "ready")
    listening = "busybox nc -ll -p 8123 -e /bin/true >/dev/null 2>&1 & echo $!"
    number = clean.a.run("sh", "-c", listening).stdout.strip()
    time.sleep(0.5)
    for host in clean.hosts:
        let_go(host)
    going.until("it was taken away", lambda: not any(map(containers, clean.hosts)))
    clean.a.run("kill", "-9", number)  # until then it is waited for: it might be the engine's own
    up, code = going.said()
    assert (up["state"], code) == ("failed", 1), up
    assert "ddress already in use" in up["because"], up["because"]


def test_a_head_that_loses_power(ana: Operator, clean: Lab) -> None:
    """Nobody says goodbye, and the other host is reached through it."""
    going = held_in(clean, ana, "weights", *SOON)
    clean.a.power_off()
    up, code = going.said()
    assert up["state"] in ("failed", "stalled") and code == 1, up
    clean.heal()
    down, code = ana.ask("down", up["run"])
    assert (down["state"], code, down["left"]) == ("down", 0, []), down


def test_a_disk_that_is_full_while_the_image_is_copied(ana: Operator, clean: Lab) -> None:
    """Only the head holds it; what cannot be unpacked is the cause, and the next try brings it."""
    clean.b.docker("image", "rm", TAG)
    clean.b.run("mount", "-t", "tmpfs", "-o", "size=5m", "tmpfs", "/var/lib/docker/tmp")
    try:
        up, code = ana.begin(*ana.up_words(two_ranks(), build=HELD)).said()
    finally:
        clean.b.run("umount", "/var/lib/docker/tmp")
    assert (up["state"], code, up["undone"], up["left"]) == ("failed", 1, True, []), up
    assert "second" in up["because"] and "no space left on device" in up["because"], up["because"]
    assert clean.b.docker("image", "ls", "-q", TAG) == ""
    up, code = ana.begin(*ana.up_words(two_ranks(), build=HELD)).said()
    assert (up["state"], code) == ("up", 0), up
    assert ana.ask("down", up["run"])[1] == 0


def test_an_operator_that_is_killed_while_the_image_is_copied(
    ana: Operator, ben: Operator, clean: Lab
) -> None:
    """What it had claimed another sees and ends; what had come is no image yet, and no program goes on by itself."""
    clean.b.docker("image", "rm", TAG)
    clean.wires.rate("fabric", "40mbit")
    before = received(clean)
    going = ana.begin(*ana.up_words(two_ranks(), build=HELD))
    going.until("a part of it has come", lambda: received(clean) - before > 4_000_000)
    going.kill()
    clean.wires.heal(clean.spaces())
    (one,) = ben.runs()
    assert one["operator"].startswith("ana@") and one["processes"] == [], one
    assert ben.ask("down", one["run"], on=True)[1] == 0
    assert clean.b.docker("image", "ls", "-q", TAG) == ""
    up, code = ana.begin(*ana.up_words(two_ranks(), build=HELD)).said()
    assert (up["state"], code) == ("up", 0), up
    assert ana.ask("down", up["run"])[1] == 0


def received(lab: Lab) -> int:
    """Bytes that came to the second host."""
    return int(lab.b.read("/sys/class/net/enp1s0f0np0/statistics/rx_bytes"))
