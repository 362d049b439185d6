"""Namespaces of their own for processes, which end with the test process, however that one ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

INIT = Path(__file__).with_name("init.py")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
KINDS = ("net", "mount", "uts", "ipc", "pid")


class LabError(Exception):
    """The lab did not do what it was told."""


@dataclass(frozen=True, slots=True)
class Space:
    """Network, mount, uts, ipc and pid namespaces with a process number 1."""

    name: str
    process: subprocess.Popen[bytes]
    """Keeps it; whoever kills it ends the space."""
    pid: int
    """Its process number 1, as this machine counts."""
    own_root: bool
    """It has a root file system of its own, and so an environment of its own."""

    def entering(self, argv: Sequence[str], user: str | None = None) -> list[str]:
        """The command that runs ``argv`` in there."""
        enter = ["nsenter", f"--target={self.pid}", *(f"--{kind}" for kind in KINDS)]
        if not self.own_root:
            return [*enter, "--", "env", f"--chdir={Path.cwd()}", *argv]
        login = [] if user is None else ["runuser", "-u", user, "--"]
        clean = [
            "env",
            "-i",
            f"PATH={PATH}",
            "LANG=C.UTF-8",
            f"HOME={Path('/home', user) if user else '/root'}",
        ]
        return [*enter, "--root", "--", *login, *clean, *argv]

    def run(
        self,
        *argv: str,
        user: str | None = None,
        given: str | None = None,
        check: bool = True,
        timeout: float = 60.0,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in there. Raises LabError when it fails, unless ``check`` is False."""
        # What a hostile machine prints need not be text.
        done = subprocess.run(
            self.entering(argv, user), input=given, capture_output=True, encoding="utf-8", errors="replace",
            timeout=timeout, check=False, env=None if env is None else {**os.environ, **env},
        )  # fmt: skip
        if check and done.returncode != 0:
            raise LabError(f"{self.name}: {' '.join(argv)[:300]}: {done.returncode}: {done.stderr[-2000:]}")
        return done

    def start(self, *argv: str, log: IO[bytes] | int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        """Start a command in there and go on; it ends with the space, at the latest."""
        return subprocess.Popen(self.entering(argv), stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def end(self) -> None:
        """Kill process number 1, and so, at once, everything in there."""
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        gone(self.pid)


def open_space(name: str, role: str, told: Mapping[str, Any], log: Path) -> Space:
    """Make the namespaces; back as soon as ``init.py`` says that everything is mounted.

    Must be called by the main thread: the death of the thread that starts a process counts as its parent's.
    """
    argv = [
        "setpriv", "--pdeathsig", "KILL", "--",
        "unshare", *(f"--{kind}" for kind in KINDS), "--fork", "--kill-child=KILL", "--propagation", "private", "--",
        sys.executable, "-I", "-S", str(INIT), role, json.dumps(dict(told)),
    ]  # fmt: skip
    with log.open("ab") as talk:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=talk)
    assert process.stdout is not None
    line = process.stdout.readline().split()
    if len(line) != 2 or line[0] != b"ready":
        process.kill()
        process.wait()
        process.stdout.close()
        raise LabError(f"{name} did not start: {log.read_text(errors='replace')[-2000:]}")
    return Space(name, process, int(line[1]), own_root=role == "host")


def network_of(pid: int) -> str | None:
    """Which network namespace a process is in; None: it is gone."""
    try:
        return str(Path(f"/proc/{pid}/ns/net").readlink())
    except OSError:
        return None


def born(pid: int) -> str | None:
    """When a process began, in the kernel's ticks; None: there is none, or only its exit status is left."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in {"Z", "X"} else fields[19]


def gone(pid: int, seconds: float = 10.0) -> None:
    """Wait until a process has ended."""
    end = time.monotonic() + seconds
    while born(pid) is not None:
        if time.monotonic() > end:
            raise LabError(f"process {pid} does not end")
        time.sleep(0.01)
