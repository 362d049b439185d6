"""Deployments that another operator started: seen as they are, taken over, taken away, from a journal of one's own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from canserve.api.promised import from_kept
from canserve.commands import claims
from canserve.facts import Known
from canserve.memory.quantity import Quantity
from canserve.plan.plan import Speed
from canserve.plan.steps.describing import description, understood
from canserve.store.journal import journal
from canserve.subjects.deployment import Deployment, Folder, Image, Site
from made_plans import environment, made, server, written
from operator_here import Here, within


def test_whoever_comes_sees_what_it_is_and_whether_it_answers(here: Here) -> None:
    up, _ = here.asked("up", here.plan())
    (mine,) = here.asked("status", up["run"])[0]["runs"]
    (seen,) = here.asked("status", "--on", "local", who="ben")[0]["runs"]
    for name in (
        "run",
        "model",
        "build",
        "operator",
        "state",
        "endpoint",
        "listens",
        "claims",
        "processes",
        "gone",
    ):
        assert seen[name] == mine[name], name
    assert seen["listens"] is True and seen["processes"][0]["ranks"] == "0" and seen["journal"] is None
    assert here.asked("down", up["run"], "--on", "local", who="ben")[1] == 0
    assert here.left() == set()


def test_a_process_that_is_gone_is_missed_by_whoever_comes(here: Here) -> None:
    up, _ = here.asked("up", here.plan())
    os.killpg(int((here.state / up["run"] / "0" / "pid").read_text()), signal.SIGKILL)
    for name in ("pid", "log"):
        (here.state / up["run"] / "0" / name).unlink()
    (here.state / up["run"] / "0").rmdir()
    (seen,) = here.asked("status", "--on", "local", who="ben")[0]["runs"]
    assert (seen["gone"], seen["state"], seen["listens"]) == ([0], "gone", False)
    assert here.asked("down", up["run"], "--on", "local", who="ben")[1] == 0
    assert here.left() == set()


def test_adopt_then_status_logs_and_down_without_naming_machines(here: Here) -> None:
    up, _ = here.asked("up", here.plan())
    run = up["run"]
    adopted, code = here.asked("adopt", run, "--on", "local", who="ben")
    assert (code, adopted["runs"][0]["state"], adopted["runs"][0]["journal"]) == (0, "running", "up")
    (one,) = here.asked("status", who="ben")[0]["runs"]
    assert (one["run"], one["endpoint"], one["listens"]) == (run, f"local:{here.port}", True)
    assert f"ready on {here.port}" in here.run("logs", run, who="ben").stdout
    audit = (here.state / f"audit-{os.getuid()}.log").read_text().splitlines()
    assert any(line.startswith("ben@") and f" adopt {run} from ana@" in line for line in audit)
    with journal(here.folder / "ben") as kept:
        entry = kept.run(run)
        assert entry is not None and entry.told["adopted"].startswith("ana@")
        assert [one.what for one in kept.events(run)] == ["adopted"]
    assert here.asked("adopt", run, "--on", "local", who="ben")[1] == 0  # once more is no error
    assert here.asked("down", who="ben")[0]["state"] == "down"
    assert here.left() == set()
    assert here.asked("status", run)[0]["runs"][0]["state"] == "gone"  # its first operator is told
    assert here.asked("down", run)[0]["state"] == "nothing"


def planned(here: Here, name: str) -> str:
    """A plan that states a speed."""
    speed = Speed(
        Quantity(30.0, 27.0, 33.0, "measured"),
        34.0,
        Quantity(90.0, 80.0, 99.0, ""),
        Quantity(500.0, 400.0, 600.0, ""),
        700.0,
        "memory bandwidth",
    )
    plan = made([server("local", here.port)], build=environment(here.folder, "vllm"))
    return str(written(here.folder / name, [replace(plan, speed=Known(speed))]))


def test_whoever_adopts_is_named_by_claims_status_and_refusals_and_has_what_was_promised(here: Here) -> None:
    run = here.asked("up", planned(here, "plan.json"))[0]["run"]
    record = here.state / f"{run}.json"
    born = record.stat().st_mtime_ns
    adopted, code = here.asked("adopt", run, "--on", "local", who="ben")
    assert code == 0 and adopted["runs"][0]["operator"].startswith("ben@"), adopted
    assert str((here.state / "accelerator-0.lock").readlink()).startswith(f"{run} process ben@")
    described = understood(record.read_text())
    assert described is not None and described.operator.startswith("ben@")
    # What is older than the record was not made for the run, whoever has it.
    assert record.stat().st_mtime_ns == born
    for words, who in ((("--on", "local"), "cai"), ((), "ana"), ((), "ben")):
        (one,) = here.asked("status", *words, who=who)[0]["runs"]
        assert one["operator"].startswith("ben@"), (words, who, one)
    again, code = here.asked("up", planned(here, "again.json"), who="cai")
    assert code == 1 and "accelerator-0 is held" in again["because"] and "ben@" in again["because"], again
    with journal(here.folder / "ana") as hers, journal(here.folder / "ben") as his:
        first, second = hers.run(run), his.run(run)
    assert first is not None and second is not None
    promise = second.told["promise"]
    assert promise == first.told["promise"] and promise["decode"] == [30.0, 27.0, 33.0], promise
    assert isinstance(from_kept(promise, run), Known)
    assert here.asked("down", run, who="ben")[1] == 0
    assert here.left() == set()


def test_only_a_claim_of_the_run_itself_is_taken_over(tmp_path: Path) -> None:
    """Between the look and the step it may have become somebody else's."""
    lock = tmp_path / "accelerator-0.lock"

    def take(run: str, text: str) -> subprocess.CompletedProcess[str]:
        argv = claims.take_over(str(tmp_path), "accelerator-0", run, text)
        return subprocess.run(argv, capture_output=True, text=True, check=False)

    lock.symlink_to("r2 docker cai@desk now")
    done = take("r1", "r1 docker ben@desk now")
    assert (done.returncode, done.stdout) == (1, "r2 docker cai@desk now\n")
    assert str(lock.readlink()) == "r2 docker cai@desk now"
    assert take("r2", "r2 docker ben@desk now").returncode == 0
    assert str(lock.readlink()) == "r2 docker ben@desk now"
    lock.unlink()
    assert take("r2", "r2 docker ben@desk now").returncode == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("adopt", "0123abcd", "--on", "local"), "nothing of 0123abcd is on local"),
        (("adopt", "--on", "local"), "there is no deployment"),
        (("adopt", "../x", "--on", "local"), "is no name of a run"),
    ],
)
def test_what_cannot_be_adopted(here: Here, words: tuple[str, ...], said: str) -> None:
    done = here.run(*words)
    assert (done.returncode, done.stdout) == (2, "") and said in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("moment", [0.0, 0.2, 0.5, 0.9, 1.4, 2.0])
def test_kill_9_at_any_moment_then_adopt_and_down(here: Here, moment: float) -> None:
    starting = here.begin(here.plan(), "--wait", "60")
    assert within(60, lambda: starting.poll() is not None or here.state.exists())
    time.sleep(moment)
    if starting.poll() is None:
        os.killpg(starting.pid, signal.SIGKILL)
    starting.communicate(timeout=60)
    here.takes_away("ben", adopting=True)


def test_what_a_stranger_wrote_is_no_description(here: Here, tmp_path: Path) -> None:
    up, _ = here.asked("up", here.plan())
    own = here.state / f"{up['run']}.json"
    told = json.loads(own.read_text())
    secret = tmp_path / "secret"
    secret.write_text(json.dumps({**told, "run": "feedbeef", "model": "s3cr3t"}))
    (here.state / "feedbeef.json").symlink_to(secret)
    (here.state / "deadbeef.json").write_text("[" * 100_000)
    (here.state / "cafecafe.json").write_text(json.dumps({**told, "run": "../../etc"}))
    found = here.asked("status", "--on", "local", who="ben")[0]["runs"]
    assert [one["run"] for one in found] == [up["run"]]
    for name in ("feedbeef", "deadbeef", "cafecafe"):
        (here.state / f"{name}.json").unlink()
    assert here.asked("down", up["run"])[1] == 0 and here.left() == set()


def test_a_description_says_no_more_than_it_should() -> None:
    processes = (server("a", 8000), server("b", 8000))
    it = Deployment(
        "r1", "/m", "/b", "vllm", Folder("/b"), (Site("a", (0,)), Site("b", (0,))), processes, "ana@desk now"
    )
    head, second = understood(description(it, "a")), understood(description(it, "b"))
    assert head is not None and second is not None
    assert [one[1] for one in head.processes] == ["a", "b"] and head.held == ("a", "b")
    assert [one[1] for one in second.processes] == ["b"] and second.held == ("b",)
    promised = understood(description(replace(it, promise={"decode": [1, 1, 1]}), "a"))
    assert promised == replace(head, promise={"decode": [1, 1, 1]})


@pytest.mark.parametrize(
    "change",
    [
        {"form": 2}, {"run": 1}, {"processes": [1]}, {"processes": [{"number": True, "host": "a", "ranks": [], "api": 1}]},
        {"held": [1]}, {"model": None}, {"processes": [{"number": 0, "host": "a", "ranks": ["x"], "api": 1}]},
        {"processes": [{"number": 0, "host": "a", "ranks": [], "api": 70000}]},
    ],
)  # fmt: skip
def test_another_form_is_no_description(change: dict[str, object]) -> None:
    it = Deployment(
        "r1", "/m", "/b", "vllm", Folder("/b"), (Site("a"),), (server("a", 8000),), "ana@desk now"
    )
    told = json.loads(description(it, "a"))
    assert understood(json.dumps(told)) is not None
    assert understood(json.dumps({**told, **change})) is None
    without = understood(json.dumps({**told, "promise": [1]}))  # less is known then, and no more
    assert without is not None and without.promise is None


def test_the_engine_that_a_run_names_is_asked(here: Here) -> None:
    """Without being named: only who says that podman holds it has it asked."""
    process = server("local", here.port)
    it = Deployment(
        "r1", "/m", "i", "vllm", Image("podman", "i"), (Site("local", (0,)),), (process,), "ana@desk now"
    )
    here.state.mkdir()
    (here.state / "r1.json").write_text(description(it, "local"))
    (here.folder / "bin").mkdir()
    podman = here.folder / "bin" / "podman"
    labels = '{\\"canserve.run\\": \\"r1\\", \\"canserve.process\\": \\"0\\"}'
    podman.write_text(
        f'#!/bin/sh\ncase "$1 $2" in "ps -a") echo c1;; "container inspect") echo "\\"/canserve-r1-0\\" {labels} '
        '{\\"Status\\": \\"running\\"}";; esac\n'
    )
    podman.chmod(0o755)
    path = f"{podman.parent}:{os.environ['PATH']}"
    done = here.run("status", "--on", "local", "--format", "json", who="ben", PATH=path)
    (one,) = json.loads(done.stdout)["runs"]
    assert [(each["name"], each["alive"], each["ranks"]) for each in one["processes"]] == [
        ("canserve-r1-0", True, "0")
    ]
