"""``verify RUN`` and ``diagnose RUN``: a deployment on this machine, judged by its name."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from canserve.api import promised
from canserve.api.ranks_told import ended_since, ranks_told
from canserve.api.running import Sought, one_of
from canserve.api.verifying import VerifyWishes
from canserve.api.verifying_runs import verify_run
from canserve.facts import Known, Missing
from canserve.store.journal import journal
from canserve.subjects.inquiry import RankNow
from canserve.verdict import No
from canserve.verify.ledger import Ledger
from loopback import free_port
from made_plans import saved, server
from stub_server import program

COMMAND = str(Path(sys.executable).with_name("canserve"))


@dataclass(frozen=True)
class Ana:
    """An operator with an engine that answers."""

    folder: Path
    port: int

    def run(self, *words: str, who: str = "ana") -> subprocess.CompletedProcess[str]:
        variables = {**os.environ, "CANSERVE_DATA": str(self.folder / who), "LOGNAME": who}
        return subprocess.run(
            [COMMAND, *words, "--state", str(self.folder / "state"), "--quiet"],
            capture_output=True, text=True, check=False, timeout=240, env=variables, cwd=self.folder,
        )  # fmt: skip

    def asked(self, *words: str, who: str = "ana") -> tuple[dict[str, Any], int]:
        done = self.run(*words, "--format", "json", who=who)
        assert done.stdout, done.stderr
        return dict(json.loads(done.stdout)), done.returncode

    def up(self, *faults: str, argv: tuple[str, ...] = (), more: tuple[str, ...] = ()) -> dict[str, Any]:
        program(self.folder / "venv" / "bin" / "vllm", *faults)
        plan = saved(
            self.folder / "plan.json", [server("local", self.port, *argv)], build=str(self.folder / "venv")
        )
        return self.asked("up", str(plan), *more)[0]


@pytest.fixture
def ana(tmp_path: Path) -> Iterator[Ana]:
    it = Ana(tmp_path, free_port())
    yield it
    it.run("down")


BRIEF = ("--quick", "--patience", "20", "--time", "100")


def test_a_run_is_asked_where_it_serves(ana: Ana) -> None:
    run = ana.up()["run"]
    found, code = ana.asked("verify", run, *BRIEF)
    assert (found["verdict"], code) == ("yes", 0), [f for f in found["findings"] if f["verdict"] != "yes"]
    assert found["url"] == f"{run} on local:{ana.port}" and found["model"] == "tiny"
    assert "speed-near-bound" in {one["check"] for one in found["skipped"]}, "its plan states no speed"
    alive = next(one for one in found["findings"] if one["check"] == "every-rank-alive")
    assert f"process 0 of {run}" in [look["how"] for look in alive["evidence"]]
    # Somebody else, who has only the machine's word for it.
    other, _ = ana.asked("verify", run, "--on", "local", "--quick", "--time", "3", who="ben")
    assert other["url"] == found["url"] and other["model"] == "tiny"
    told, code = ana.asked("diagnose", run)
    assert (told["state"], code, told["engine"]) == ("serving", 0, "vllm")


def test_a_run_that_is_not_there(ana: Ana) -> None:
    up = ana.up()
    assert up["state"] == "up", up
    run = up["run"]
    ana.run("down")
    done = ana.run("verify", run)
    assert done.returncode == 2 and f"nothing of {run} is on its machines" in done.stderr
    assert ana.run("diagnose", run).returncode == 2
    nobody = ana.run("verify", "0123abcd")
    assert nobody.returncode == 2 and "the journal has no run 0123abcd" in nobody.stderr
    assert "no such file" in ana.run("diagnose", "not-there.log").stderr.lower()


def test_how_a_process_ended_is_part_of_what_it_wrote(ana: Ana) -> None:
    path = ana.folder / "venv" / "bin" / "vllm"
    program(path)
    path.write_text("#!/bin/sh\necho 'INFO vLLM API server version 0.17.1'\nkill -9 $$\n")
    plan = saved(ana.folder / "plan.json", [server("local", ana.port)], build=str(ana.folder / "venv"))
    run = ana.asked("up", str(plan), "--keep")[0]["run"]
    found, code = ana.asked("diagnose", run)
    assert (found["state"], code, found["kind"]) == ("failed", 1, "memory"), found
    assert found["cause"]["text"] == "process 0 exited with code 137"


def test_what_failed_and_was_taken_away_is_read_where_it_was_kept(ana: Ana) -> None:
    path = ana.folder / "venv" / "bin" / "vllm"
    program(path)
    path.write_text(
        "#!/bin/sh\necho 'INFO vLLM API server version 0.17.1'\n"
        "echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB'\nexit 1\n"
    )
    plan = saved(ana.folder / "plan.json", [server("local", ana.port)], build=str(ana.folder / "venv"))
    up, _ = ana.asked("up", str(plan))
    assert (up["state"], up["undone"]) == ("failed", True), up
    found, code = ana.asked("diagnose", up["run"])
    assert (found["state"], code, found["kind"]) == ("failed", 1, "memory"), found
    assert "CUDA out of memory" in found["cause"]["text"]


def test_a_promise_comes_back_as_it_went() -> None:
    told = {
        "decode": [30.0, 27.0, 33.0], "decode_bound": 34.0, "prefill": None, "limit": "memory bandwidth", "machines": 2,
        "ranks": 2, "layers": 48, "model": "m", "wants": ["tools"], "replicas": 1, "why": "because",
    }  # fmt: skip
    found = promised.from_kept(json.loads(json.dumps(told)), "4f2a9c1d")
    assert isinstance(found, Known)
    assert found.value.decode == (30.0, 27.0, 33.0) and found.value.wants == {"tools"}
    assert found.evidence[0].saw == "because"
    never = float("nan")  # machines keep it too, where everybody may write
    for broken in (
        {**told, "decode": [1]}, {**told, "later": 1}, {"why": ""}, {**told, "decode": [30, never, 33]},
        {**told, "decode_bound": -1}, {**told, "wants": 3}, {**told, "layers": "x"}, {**told, "ranks": float("inf")},
    ):  # fmt: skip
        assert isinstance(promised.from_kept(broken, "4f2a9c1d"), Missing)
    assert isinstance(promised.from_kept(None, "4f2a9c1d"), Missing)


def test_ranks_are_looked_at_while_it_is_asked(ana: Ana) -> None:
    up = ana.up()
    assert up["state"] == "up", up
    ledger = Ledger()

    def seen(alive: bool) -> RankNow:
        until = time.monotonic() + 120
        while not any(one.alive is alive for one in ledger.now().ranks):
            assert time.monotonic() < until, ledger.now().ranks
            time.sleep(0.1)
        return ledger.now().ranks[0]

    with journal(ana.folder / "ana") as kept:
        found = one_of(Sought(up["run"], state=str(ana.folder / "state")), kept)
    with ranks_told(found, ledger):
        rank = seen(alive=True)
        assert (rank.who, rank.machine, rank.phase) == ("rank 0", "local", "rank 0: ready")
        os.kill(int(Path(found.running[0].name, "pid").read_text()), signal.SIGKILL)
        assert seen(alive=False).state == "killed"
    assert [one.state for one in ended_since(found)] == ["killed"]
    # Whoever judges it knows, although it lived when the questions began.
    report = verify_run(found, VerifyWishes(quick=True, seconds=5.0))
    alive = next(one for one in report.findings if one.check == "every-rank-alive")
    assert (
        isinstance(alive.verdict, No)
        and "process 0 on local killed, while it was asked" in alive.verdict.because
    )
    assert "ranks" not in {thread.name for thread in threading.enumerate()}
