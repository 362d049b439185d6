"""A host of the lab: what a test may do on it, and to it."""

from __future__ import annotations

import http.client
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.spaces import LabError, Space, open_space

USER = "spark"
"""Who logs in, and may use docker."""
READY = 30.0
"""Seconds that a host has to start."""


@dataclass
class Host:
    """One host. It keeps its disk when it is switched off; /tmp, /run and /root are in memory."""

    name: str
    folder: Path
    told: dict[str, Any]
    """For ``init.py``."""
    opened: Callable[[Space], None]
    """Called with its space on every start: connects its cables."""
    _space: Space | None = field(default=None, repr=False)
    _stopped: list[int] = field(default_factory=list, repr=False)

    @property
    def space(self) -> Space:
        """While it is on."""
        if self._space is None:
            raise LabError(f"{self.name} is off")
        return self._space

    @property
    def on(self) -> bool:
        """Whether it is switched on."""
        return self._space is not None

    @property
    def share(self) -> Path:
        """A folder that the host sees as ``/lab``."""
        return self.folder / "share"

    @property
    def root(self) -> Path:
        """Its root file system, as this machine sees it while it is on."""
        return Path(f"/proc/{self.space.pid}/root")

    def begin(self) -> None:
        """Switch on, without waiting for its services."""
        self.share.mkdir(parents=True, exist_ok=True)
        self.share.chmod(0o777)  # whoever is logged in there may leave a note
        (self.share / "oci").mkdir(exist_ok=True)
        self._space = open_space(self.name, "host", self.told, self.folder / "init.log")
        self.opened(self._space)

    def ready(self) -> None:
        """Wait until sshd and dockerd answer. Raises LabError with what they said when they do not."""
        end = time.monotonic() + READY
        while not ((self.root / "run/sshd.pid").exists() and self._engine_answers()):
            if self.space.process.poll() is not None or time.monotonic() > end:
                logs = [self.folder / "init.log", self.share / "sshd.log", self.share / "dockerd.log"]
                said = "\n".join(log.read_text(errors="replace")[-1500:] for log in logs if log.exists())
                raise LabError(f"{self.name} is not ready: {said}")
            time.sleep(0.05)

    def boot(self) -> None:
        """Switch on and wait for its services; its disk is as it was."""
        self.begin()
        self.ready()

    def power_off(self) -> None:
        """Everything stops at once, and nothing says goodbye: first its cables go dead, then its processes."""
        space, self._space = self.space, None
        self._stopped.clear()
        subprocess.run(
            ["nsenter", f"--target={space.pid}", "--net", "--", "ip", "link", "set", "group", "default", "down"],
            check=False, capture_output=True,
        )  # fmt: skip
        space.end()

    def run(
        self, *argv: str, user: str | None = None, given: str | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on it, as root or as somebody else, whatever the network does."""
        return self.space.run(*argv, user=user, given=given, check=check)

    def docker(self, *words: str, check: bool = True) -> str:
        """What ``docker`` says there."""
        return self.run("docker", *words, check=check).stdout.strip()

    def read(self, path: str) -> str:
        """A file of it."""
        return self.run("cat", path).stdout

    def write(self, path: str, text: str, mode: str = "644") -> None:
        """Make or replace a file of it; its folder is made as well."""
        script = 'mkdir -p "$(dirname "$1")" && cat >"$1" && chmod "$2" "$1"'
        self.run("sh", "-c", script, "sh", path, mode, given=text)

    def copy(self, source: Path, path: str) -> None:
        """A file or folder of this machine, to a path there."""
        passing = self.share / f"passing-{source.name}"
        if source.is_dir():
            shutil.copytree(source, passing)
        else:
            shutil.copyfile(source, passing)
        try:
            self.run(
                "sh",
                "-c",
                'mkdir -p "$(dirname "$2")" && cp -a "$1" "$2"',
                "sh",
                f"/lab/{passing.name}",
                path,
            )
        finally:
            shutil.rmtree(passing) if passing.is_dir() else passing.unlink()

    @contextmanager
    def changed(self, path: str, text: str | None, mode: str = "644") -> Iterator[None]:
        """A file replaced for a while, or taken away (None)."""
        kept = f"{path}.kept-by-the-lab"
        self.run("sh", "-c", '[ ! -e "$1" ] || cp -a "$1" "$2"', "sh", path, kept)
        try:
            self.run("rm", "-f", path)
            if text is not None:
                self.write(path, text, mode)
            yield
        finally:
            self.run("sh", "-c", 'rm -f "$1"; [ ! -e "$2" ] || mv "$2" "$1"', "sh", path, kept)

    def processes(self) -> dict[int, str]:
        """Its own numbers and names of processes."""
        found = {}
        for entry in (self.root / "proc").glob("[0-9]*"):
            with suppress(OSError):  # it has just ended
                found[int(entry.name)] = (entry / "comm").read_text().strip()
        return found

    def engine(self, word: signal.Signals) -> None:
        """A signal to dockerd: SIGSTOP hangs it, SIGCONT lets it go on."""
        found = [number for number, name in self.processes().items() if name == "dockerd"]
        self.run("kill", f"-{word.name}", *map(str, found))
        self._stopped = found if word is signal.SIGSTOP else []

    def reload_sshd(self) -> None:
        """Have sshd read its configuration and its host key anew; connections that are there stay."""
        self.run("kill", "-HUP", self.read("/run/sshd.pid").strip())
        self.wait_for_sshd()

    def wait_for_sshd(self) -> None:
        """Until something listens on port 22."""
        for _ in range(200):
            if ":0016 00000000:0000 0A" in self.read("/proc/net/tcp"):
                return
            time.sleep(0.02)
        raise LabError(f"{self.name}: no sshd listens")

    def heard(self) -> int:
        """How long sshd's log is now; ``logins`` takes it."""
        return (self.share / "sshd.log").stat().st_size

    def logins(self, since: int = 0) -> int:
        """Connections that sshd let in."""
        return self._said(since, "Accepted publickey")

    def sessions(self, since: int = 0) -> int:
        """Commands that sshd started; a connection that only passes through has none."""
        return self._said(since, "Starting session: ")

    def _said(self, since: int, words: str) -> int:
        with (self.share / "sshd.log").open("rb") as log:
            log.seek(since)
            return log.read().count(words.encode())

    def recover(self) -> None:
        """Switched on, and dockerd going."""
        if not self.on:
            self.boot()
        if self._stopped:
            self.engine(signal.SIGCONT)

    def _engine_answers(self) -> bool:
        try:
            with socket.socket(socket.AF_UNIX) as way:
                way.settimeout(2)
                way.connect(str(self.root / "run/docker.sock"))
                way.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
                answer = http.client.HTTPResponse(way)
                answer.begin()
                return answer.status == 200
        except (OSError, http.client.HTTPException):
            return False


def ssh_key(path: Path, comment: str) -> str:
    """Make a key pair; its public half."""
    path.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)], check=True
    )
    return " ".join(path.with_suffix(".pub").read_text().split()[:2])


def missing_programs(names: Sequence[str]) -> list[str]:
    """Those that are not installed here."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    return [name for name in names if shutil.which(name, path=path) is None]
