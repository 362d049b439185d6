"""One candidate after the other on this machine: what fails is kept to be looked at, taken away, and never tried twice."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from canserve.plan.plan import Plan
from canserve.store.journal import Event, journal
from canserve.verdict import Finding
from loopback import free_port
from made_plans import environment, made, refused, server, told, written
from operator_here import Here, within


class Plans:
    """Candidates, each from an environment of its own."""

    def __init__(self, here: Here) -> None:
        self.here = here
        self.plans: list[Plan] = []

    def add(
        self,
        build: str,
        *more: str,
        port: int | None = None,
        programs: Sequence[str] = ("vllm",),
        findings: tuple[Finding, ...] = (),
    ) -> Plans:
        lying = environment(self.here.folder / build, *programs)
        process = server("local", port or self.here.port, *more)
        self.plans.append(made([process], build=lying, findings=findings))
        return self

    def file(self) -> str:
        return str(written(self.here.folder / "plans.json", self.plans))


@pytest.fixture
def plans(here: Here) -> Plans:
    return Plans(here)


def states(up: dict[str, Any]) -> list[str]:
    return [one["state"] for one in up["candidates"]]


def events(here: Here, story: str) -> tuple[Event, ...]:
    with journal(here.folder / "ana") as kept:
        return kept.events(story)


def test_the_third_candidate_serves(here: Here, plans: Plans) -> None:
    plans.add("old", findings=refused("no such class")).add("failing", "--fail").add("good").add("spare")
    up, code = here.asked("up", plans.file())
    assert (up["state"], code, states(up)) == ("up", 0, ["refused", "failed", "up", "left-over"]), up
    old, failing, good, spare = up["candidates"]
    assert "no such class" in old["because"] and old["run"] is None
    assert failing["because"] == "local: process 0 exited with 7: ValueError: no such model"
    assert good["run"] == up["run"] != failing["run"] and spare["because"] == "one before it serves"
    assert failing["hint"] == f"canserve diagnose {failing['evidence']}/logs"
    logs = list(Path(failing["evidence"]).glob("logs/*.log"))
    assert ["ValueError: no such model" in log.read_text() for log in logs] == [True]
    assert "MemTotal" in (Path(failing["evidence"]) / "counters" / "local.txt").read_text()
    assert Path(failing["evidence"]).stat().st_mode & 0o077 == 0
    with journal(here.folder / "ana") as kept:
        runs = {entry.run: entry for entry in kept.runs()}
        assert {run: entry.state for run, entry in runs.items()} == {
            failing["run"]: "failed",
            up["run"]: "up",
        }
        assert {entry.told["story"] for entry in runs.values()} == {failing["run"]}
    happened = events(here, failing["run"])
    assert [one.what for one in happened if one.what not in ("cause", "phase")] == [
        "refused", "failed", "evidence", "up", "left-over",
    ]  # fmt: skip
    assert here.asked("status", up["run"])[1] == 0
    assert here.asked("down", up["run"])[1] == 0
    assert here.left() == set()
    history = told_of(here, up["run"])
    assert [(one["run"], one["state"]) for one in history["runs"]] == [
        (failing["run"], "failed"), (up["run"], "down"),
    ]  # fmt: skip
    steps = [(one["run"], one["what"]) for one in history["happened"] if one["kind"] == "step"]
    first, second = failing["run"], up["run"]
    assert steps.index((first, "start")) < steps.index((first, "end")) < steps.index((second, "start"))
    assert steps.index((second, "start")) < steps.index((second, "end"))
    text = here.run_alone("history", up["run"]).stdout
    assert "ValueError: no such model" in text and "no such class" in text and failing["evidence"] in text
    assert [one["run"] for one in told_of(here)["runs"]] == [second, first]


def told_of(here: Here, *run: str) -> dict[str, Any]:
    return dict(told(here.run_alone("history", *run, "--format", "json").stdout))


def test_the_same_build_is_not_tried_again_for_what_it_fails_by(here: Here, plans: Plans) -> None:
    plans.add("failing", "--fail").add("failing", "--fail", "--again").add("good")
    up, code = here.asked("up", plans.file())
    assert (code, states(up)) == (0, ["failed", "skipped", "up"])
    assert "candidate 1" in up["candidates"][1]["because"]
    assert here.run("down").returncode == 0


def test_no_more_than_so_many_are_tried(here: Here, plans: Plans) -> None:
    plans.add("a", "--fail").add("b", "--fail").add("c")
    up, code = here.asked("up", plans.file(), "--tries", "2")
    assert (up["state"], code, states(up)) == ("failed", 1, ["failed", "failed", "left-over"])
    assert up["candidates"][2]["because"] == "2 were tried"
    assert here.left() == set()


def test_what_failed_and_was_left_standing_is_the_last(here: Here, plans: Plans) -> None:
    plans.add("a", "--fail").add("b")
    up, code = here.asked("up", plans.file(), "--keep")
    assert (code, states(up), up["undone"]) == (1, ["failed", "left-over"], False)
    assert here.run("down").returncode == 0 and here.left() == set()


def test_a_port_that_is_taken_is_not_tried_again(here: Here, plans: Plans) -> None:
    other = free_port()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", here.port))
        taken.listen()
        up, code = here.asked("up", plans.add("a").add("b").add("c", port=other).file())
    assert (code, states(up)) == (0, ["failed", "skipped", "up"]), up
    assert f"port {here.port} is taken" in up["candidates"][1]["because"]
    assert up["endpoint"] == f"local:{other}"
    assert here.run("down").returncode == 0 and here.left() == set()


def test_what_somebody_else_holds_is_not_tried_again(here: Here, plans: Plans) -> None:
    first, _ = here.asked("up", here.plan())
    up, code = here.asked("up", plans.add("a").add("b", port=free_port()).file(), who="ben")
    assert (code, states(up)) == (1, ["failed", "skipped"])
    assert all(f"is held: {first['run']}" in one["because"] for one in up["candidates"])
    assert here.asked("status", first["run"])[1] == 0
    assert here.asked("down", first["run"])[1] == 0 and here.left() == set()


def test_where_all_say_no_nothing_is_started(here: Here, plans: Plans) -> None:
    plans.add("a", findings=refused("no such class")).add("b", findings=refused("no such class either"))
    done = here.run("up", plans.file())
    assert done.returncode == 2 and "no such class" in done.stderr and "another candidate" in done.stderr
    assert not here.state.exists()
    up, code = here.asked("up", plans.file(), "--force")
    assert (code, states(up)) == (0, ["up", "left-over"])
    assert here.run("down").returncode == 0


def test_a_dry_run_shows_what_it_would_begin_with(here: Here, plans: Plans) -> None:
    plans.add("old", findings=refused("no such class")).add("a").add("b")
    dry, _ = here.asked("up", plans.file(), "--dry-run")
    assert dry["build"].endswith("/a/venv") and dry["candidates"] == []
    assert (
        any("no such class" in note for note in dry["notes"])
        and "another candidate follows" in dry["notes"][-1]
    )


def test_a_credential_in_a_log_is_not_kept(here: Here, plans: Plans) -> None:
    token = "hf_" + "a" * 30
    up, _ = here.asked("up", plans.add("a", "--token-in-log", token, "--fail").file())
    (log,) = Path(up["candidates"][0]["evidence"]).glob("logs/*.log")
    assert "starting" in log.read_text() and token not in log.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_ctrl_c_in_any_attempt_leaves_nothing(here: Here, plans: Plans, seed: int) -> None:
    plans.add("a", "--fail").add("b", "--fail").add("c")
    starting = here.begin(plans.file(), "--wait", "60")
    assert within(60, lambda: starting.poll() is not None or here.state.exists())
    time.sleep(0.9 * seed)
    starting.send_signal(signal.SIGINT)
    out, error = starting.communicate(timeout=120)
    assert starting.returncode in (0, 130), (out, error)
    if starting.returncode == 0:
        assert here.run("down").returncode == 0
    assert here.left() == set()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_kill_9_at_any_moment_leaves_what_another_can_take_away(here: Here, plans: Plans, seed: int) -> None:
    plans.add("a", "--fail").add("b", "--fail").add("c")
    starting = here.begin(plans.file(), "--wait", "60")
    assert within(60, lambda: starting.poll() is not None or here.state.exists())
    time.sleep(0.3 + 0.9 * seed)
    if starting.poll() is None:
        os.killpg(starting.pid, signal.SIGKILL)
    starting.communicate(timeout=60)
    here.takes_away("ben", adopting=False)


def test_stacks_of_those_that_still_run_are_kept(here: Here) -> None:
    lying = environment(here.folder, "vllm")
    spy = Path(lying) / "bin" / "py-spy"
    spy.write_text(
        '#!/bin/sh\necho "Process $4: python3"; echo "Thread 1 (idle): \\"MainThread\\""; echo "    wait (queue.py:1)"\n'
    )
    spy.chmod(0o755)
    processes = [server("local", here.port), replace(server("local", free_port(), "--fail"), ranks=(1,))]
    up, code = here.asked("up", str(written(here.folder / "plan.json", [made(processes, build=lying)])))
    (one,) = up["candidates"]
    assert (code, one["state"]) == (1, "failed"), up
    evidence = Path(one["evidence"])
    assert "wait (queue.py:1)" in (evidence / "logs" / "local-stacks.txt").read_text()
    counters = (evidence / "counters" / "local.txt").read_text()
    assert "State:" in counters and "VmRSS:" in counters and str(here.port) in counters
    assert {path.name for path in evidence.glob("logs/*.log")} == {"local-rank-0.log", "local-rank-1.log"}
    done = here.run_alone("diagnose", str(evidence / "logs"))
    assert "no such model" in done.stdout
    assert here.left() == set()
