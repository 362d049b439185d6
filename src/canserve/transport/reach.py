"""Run a script of sections on a machine, over ssh or here, and keep what came however it ended."""

from __future__ import annotations

import os
import re
import secrets
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from canserve.commands import ssh
from canserve.facts import Cause, Evidence, Missing
from canserve.transport.frames import Answer, Output, Section, compose, understand
from canserve.transport.links import LINKS
from canserve.transport.refusal import refusal
from canserve.transport.running import MAX_OUTPUT, Ran, run

STARTS = 8
"""Connections that begin at once at one sshd: with its usual MaxStartups it drops more of them by the dozen."""
ATTEMPTS = 3
_PAUSE = 1.5
"""Seconds before another attempt, times the attempts so far."""
_LOCAL = ("/bin/sh",)


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a look may take, in seconds of the wall clock, and how much it may say."""

    connect: int = 8
    whole: float = 40.0
    output: int = MAX_OUTPUT
    """Bytes of stdout, of all sections together."""
    stop: Callable[[], bool] | None = None
    """Asked with every piece of output: True ends the look at once."""


@dataclass(frozen=True, slots=True)
class Look:
    """One look at one machine."""

    subject: str
    how: str
    """What was run, as one line."""
    when: str
    """UTC, ISO 8601: when it ended."""
    answers: Mapping[str, Answer] = field(default_factory=dict)
    trouble: Missing | None = None
    """Why sections are missing; None: none is."""
    begun: float = 0.0
    ended: float = 0.0
    """This machine's clock when the script began to answer and when it ended, seconds since the epoch."""

    def section(self, name: str) -> Answer | Missing:
        """What a section gave, or why there is nothing of it."""
        if name in self.answers:
            return self.answers[name]
        if self.trouble is not None:
            return self.trouble
        look = Evidence(self.subject, self.how, f"no answer to {name}", whole=False, when=self.when)
        return Missing(Cause.UNREADABLE, f"{self.subject} gave no answer to {name}", (look,))


class Gates:
    """At most so many connection starts at once, each sshd counted by itself."""

    def __init__(self, width: int = STARTS) -> None:
        self._width = width
        self._lock = threading.Lock()
        self._gates: dict[str, threading.BoundedSemaphore] = {}

    def of(self, key: str) -> threading.BoundedSemaphore:
        """The gate of one sshd."""
        with self._lock:
            return self._gates.setdefault(key, threading.BoundedSemaphore(self._width))


GATES = Gates()
"""Of this process."""


class Firsts:
    """The first connection to an sshd is kept open for all others, which wait until it is there, or is not."""

    def __init__(self, patience: float = 3.0) -> None:
        self._patience = patience
        """Seconds: a machine that is slow to answer must not hold up another."""
        self._lock = threading.Lock()
        self._settled: dict[str, threading.Event] = {}

    def come(self, key: str) -> Callable[[], None] | None:
        """None: somebody was there before. Else to be called when the connection is open, or has failed."""
        with self._lock:
            before = self._settled.get(key)
            if before is None:
                self._settled[key] = first = threading.Event()
                return first.set
        before.wait(self._patience)
        return None


FIRSTS = Firsts()
"""Of this process."""


def look_here(subject: str, sections: Sequence[Section], limits: Limits | None = None) -> Look:
    """Run the sections on this machine, without ssh."""
    limits = limits or Limits()
    marker = secrets.token_hex(16)
    watch = _Watch(marker, limits.stop)
    try:
        ran = run(_LOCAL, compose(sections, marker), limits.whole, watch, limits.output)
    except OSError as error:
        return _no_program(subject, "/bin/sh", error)
    return _look(subject, ran, understand(ran.out, sections, marker), watch, ())


def look_there(
    subject: str, route: ssh.Route, sections: Sequence[Section], limits: Limits | None = None
) -> Look:
    """Run the sections on a machine over ssh. Never raises for what the network or the machine does."""
    limits = limits or Limits()
    end = time.monotonic() + limits.whole
    link = LINKS.of(route.destination)
    told = _settings(route) if link is None else _Settings(route.destination, (), shares=True)
    if isinstance(told, OSError):
        return _no_program(subject, "ssh", told)
    jumps = route.through or told.jumps
    socket = None if told.shares else control_socket()
    argv = ssh.shell(route, limits.connect, socket, jumps)
    plain = ssh.shell(route, limits.connect, None)
    way = (*_sshds(route, jumps), told.sshd)
    attempt = 0
    while True:
        attempt += 1
        marker = secrets.token_hex(16)
        watch = _Watch(marker, limits.stop)
        try:
            with _started(way, socket is not None, watch):
                left = max(end - time.monotonic(), limits.connect + 2.0)
                start = run if link is None else link.run
                ran = start(argv, compose(sections, marker), left, watch, limits.output)
        except OSError as error:
            return _no_program(subject, "ssh", error)
        seen = understand(ran.out, sections, marker)
        why = None if seen.begun else refusal(ran.talk, ran.status, ran.stopped, jumps)
        alone = why is not None and why.untold and argv != plain
        last = attempt == ATTEMPTS or time.monotonic() > end
        if why is None or last or not (why.again or alone):
            return _look(subject, replace(ran, argv=plain), seen, watch, jumps)
        if alone:
            argv, socket = plain, None
        else:
            time.sleep(_PAUSE * attempt)


class _Watch:
    """Looks at the output as it comes: when the script began, and whether it is complete or unwanted."""

    def __init__(self, marker: str, stop: Callable[[], bool] | None = None) -> None:
        self._stop = stop
        self._hello = f"\n{marker} hello\n".encode()
        self._bye = f"\n{marker} bye\n".encode()
        self.on_start = ExitStack()
        self.begun = 0.0

    def __call__(self, out: bytearray) -> bool:
        if not self.begun and self._hello in out:
            self.begun = time.time()
            self.on_start.close()
        if self._stop is not None and self._stop():
            return True
        return bool(self.begun) and out.endswith(self._bye)


@contextmanager
def _started(way: Sequence[str], shared: bool, watch: _Watch) -> Iterator[None]:
    """Passes the gate of every sshd on the way, and opens them again as soon as the script begins or all is over."""
    with watch.on_start:
        for key in way if shared else ():
            if (settled := FIRSTS.come(key)) is not None:
                watch.on_start.callback(settled)
        for key in sorted(set(way)):
            gate = GATES.of(key)
            gate.acquire()
            watch.on_start.callback(gate.release)
        yield


def _sshds(route: ssh.Route, jumps: Sequence[str]) -> Iterator[str]:
    """Host and port of every jump host, so that one sshd has one name however it is reached."""
    for number, jump in enumerate(jumps):
        yield _sshd(ssh.Route(jump, tuple(jumps[:number]), route.options))


@cache
def _sshd(jump: ssh.Route) -> str:
    """Asked once for all machines behind it."""
    if LINKS.of(jump.destination) is not None:
        return jump.destination
    told = _settings(jump)
    return jump.destination if isinstance(told, OSError) else told.sshd


@dataclass(frozen=True, slots=True)
class _Settings:
    """What the user's configuration says of a destination."""

    sshd: str
    """Host and port."""
    jumps: tuple[str, ...]
    shares: bool
    """The user shares connections already, in a place of their own."""


def _settings(route: ssh.Route) -> _Settings | OSError:
    try:
        done = subprocess.run(  # noqa: S603 - argv comes from ``commands``
            ssh.settings(route), stdin=subprocess.DEVNULL, capture_output=True, timeout=10, check=False
        )
    except OSError as error:
        return error
    except subprocess.TimeoutExpired:
        return _Settings(route.destination, (), shares=True)
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    said = {word.lower(): rest for word, _, rest in (line.partition(" ") for line in lines)}
    jump = said.get("proxyjump", "none")
    host = f"{said.get('hostname', route.destination)}:{said.get('port', '22')}"
    shares = said.get("controlpath", "none") != "none"
    return _Settings(host, () if jump == "none" else tuple(jump.split(",")), shares)


def control_socket() -> str | None:
    """Where connections are kept open for a minute: a folder that is this user's alone. None: there is no such place."""
    user = os.getuid()
    base = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir())
    folder = base / f"canserve-{user}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return None
    private = stat.S_ISDIR(found.st_mode) and found.st_uid == user and not found.st_mode & 0o077
    # A socket's path has 104 bytes on some systems; ssh appends 17 of its own, and %C stands for 40.
    fits = len(str(folder)) <= 45 and re.fullmatch(r"[A-Za-z0-9/_.-]+", str(folder)) is not None
    return f"{folder}/%C" if private and fits else None


def _look(subject: str, ran: Ran, seen: Output, watch: _Watch, jumps: tuple[str, ...]) -> Look:
    when = datetime.now(UTC).isoformat(timespec="seconds")
    how = "a read-only script" if ran.argv == _LOCAL else f"{' '.join(_short(ran.argv))} < a read-only script"
    trouble = None
    if not seen.begun and ran.argv != _LOCAL:
        why = refusal(ran.talk, ran.status, ran.stopped, jumps)
        evidence = Evidence(subject, how, why.why, whole=False, when=when)
        trouble = Missing(why.cause, f"{subject}: {why.why}", (evidence,), why.ask.replace("HOST", subject))
    elif not seen.ended:
        what = "the shell ended early" if ran.argv == _LOCAL else "the connection was cut"
        why_cut = ran.stopped or f"{what} (exit status {ran.status})"
        where = f"while asking for {seen.cut}" if seen.cut else f"after {len(seen.answers)} answers"
        evidence = Evidence(subject, how, f"{why_cut}, {where}", whole=False, when=when)
        cause = Cause.UNREADABLE if ran.stopped and "MiB" in ran.stopped else Cause.UNREACHED
        trouble = Missing(cause, f"{subject}: {why_cut}, {where}", (evidence,), "look again")
    return Look(subject, how, when, seen.answers, trouble, watch.begun, time.time())


def _short(argv: Sequence[str]) -> Iterator[str]:
    """The command without the options that only keep it within bounds."""
    words = iter(argv)
    for word in words:
        if word == "-o":
            next(words, None)
        elif word not in {"-T", "-a", "-x", "--"}:
            yield word


def _no_program(subject: str, name: str, error: OSError) -> Look:
    when = datetime.now(UTC).isoformat(timespec="seconds")
    why = f"{name} cannot be run here: {error.strerror or error}"
    look = Evidence(subject, name, why, whole=False, when=when)
    return Look(subject, name, when, {}, Missing(Cause.UNREACHED, why, (look,), f"install {name}"))
