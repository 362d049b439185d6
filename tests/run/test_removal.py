"""Ending the processes of a run on this machine: what they held of shared memory goes with them, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from canserve.commands import removal
from canserve.commands.serving import VARIABLE

HOLDER = """
import _multiprocessing, mmap, os, sys, time
name = sys.argv[1]
lock = _multiprocessing.SemLock(1, 1, 1, f"/mp-{name}", False)  # glibc makes it under a passing name
handle = os.open(f"/dev/shm/psm-{name}", os.O_CREAT | os.O_RDWR)
os.ftruncate(handle, 4096)
held = mmap.mmap(handle, 4096)
print("ready", flush=True)
time.sleep(1000)
"""


def holder(name: str, run: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, name], stdout=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, VARIABLE: f"{run}."},
    )  # fmt: skip
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


def files(name: str) -> list[Path]:
    return [Path(f"/dev/shm/sem.mp-{name}"), Path(f"/dev/shm/psm-{name}")]


def end(run: str, state: Path) -> None:
    subprocess.run(removal.processes(str(state), run), check=True, timeout=300)


def record(state: Path, run: str, age: float) -> None:
    """The record of a run that began so many seconds ago."""
    path = state / f"{run}.json"
    path.write_text("{}")
    os.utime(path, (time.time() - age, time.time() - age))


@pytest.fixture
def name() -> Iterator[str]:
    made = f"canserve-{os.getpid()}"
    yield made
    for path in (*files(made), *files(f"{made}-other")):
        path.unlink(missing_ok=True)


def test_semaphores_and_memory_go_with_the_processes_of_a_run(name: str, tmp_path: Path) -> None:
    ours, other = holder(name, f"{os.getpid()}a"), holder(f"{name}-other", f"{os.getpid()}b")
    try:
        assert all(path.exists() for path in (*files(name), *files(f"{name}-other")))
        end(f"{os.getpid()}a", tmp_path)
        assert ours.wait(60) != 0
        assert not any(path.exists() for path in files(name))
        assert other.poll() is None and all(path.exists() for path in files(f"{name}-other"))
    finally:
        for process in (ours, other):
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


@pytest.mark.parametrize(("age", "kept"), [(60.0, False), (-60.0, True), (None, True)])
def test_a_semaphore_of_those_that_ended_before_anybody_looked(
    name: str, tmp_path: Path, age: float | None, kept: bool
) -> None:
    """Where the head ends, others may end by themselves: no process is left to tell what was its own."""
    run = f"{os.getpid()}d"
    process = holder(name, run)
    if age is not None:
        record(tmp_path, run, age)
    try:
        end(f"{run}-another", tmp_path)
        assert files(name)[0].exists()
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
    end(run, tmp_path)
    assert [path.exists() for path in files(name)] == [kept, True]


SLOW = "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: (time.sleep(2), sys.exit(0))); time.sleep(1000)"
LEADER = f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {SLOW!r}], env={{}}).pid, flush=True); sys.stdin.read()"


def test_who_ends_later_than_those_that_are_known_by_their_environment(tmp_path: Path) -> None:
    """As workers that wrote a title over theirs, and take their time after the server has gone."""
    run = f"{os.getpid()}c"
    leader = subprocess.Popen(
        [sys.executable, "-c", LEADER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, VARIABLE: f"{run}."},
    )  # fmt: skip
    assert leader.stdin is not None and leader.stdout is not None
    child = int(leader.stdout.readline())
    time.sleep(0.5)  # its handler is set
    waiting = threading.Thread(target=leader.wait)  # else it stays a zombie, which nobody waits for
    waiting.start()
    end(run, tmp_path)
    waiting.join(60)
    assert not Path(f"/proc/{child}/maps").exists() or not Path(f"/proc/{child}/maps").read_text()
    leader.stdin.close()
    leader.stdout.close()
