"""Run one command within bounds: a wall-clock deadline, so many bytes of output, and nothing left behind."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

from canserve.trees.unwanted import TURN, unwanted

MAX_OUTPUT = 8 << 20
"""Bytes of stdout after which a command is ended; every section of a script has a bound far below."""
MAX_TALK = 16 << 10
"""Bytes of stderr that are kept: its beginning."""
_PIECE = 1 << 16
_GRACE = 2.0
"""Seconds that a command has to exit after its output is complete."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command did."""

    argv: tuple[str, ...]
    out: bytes
    talk: str
    """The beginning of stderr."""
    status: int | None
    """Exit status, negative for a signal; None: it was ended here."""
    stopped: str | None
    """Why it was ended here, if it was."""


def run(
    argv: Sequence[str],
    given: bytes,
    seconds: float,
    complete: Callable[[bytearray], bool],
    most: int = MAX_OUTPUT,
) -> Ran:
    """Run ``argv`` with ``given`` as its input, until it wrote more than ``most`` bytes to stdout.

    ``complete`` is asked with all of stdout so far after every piece, and now and then: True ends the reading. So does
    whoever does not want it any more, see ``trees.unwanted``. Raises OSError when the command cannot be started.
    """
    # A session of its own has no terminal: no program can ask there, and all its children end with it.
    process = subprocess.Popen(  # noqa: S603 - argv comes from ``commands``
        list(argv),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, "SSH_ASKPASS_REQUIRE": "never", "LC_ALL": "C"},
    )
    pipes = _Pipes(process, given)
    try:
        stopped = pipes.pump(time.monotonic() + seconds, complete, most)
        status = _exit(process, 0.0 if stopped else _GRACE)
        pipes.last_words()
    finally:
        _end(process)
    if stopped == "late":
        stopped = f"no end within {seconds:.0f} s"
    return Ran(tuple(argv), bytes(pipes.out), pipes.talk.decode("utf-8", "replace"), status, stopped)


class _Pipes:
    """The three pipes of a process, moved together so that none can block the others."""

    def __init__(self, process: subprocess.Popen[bytes], given: bytes) -> None:
        assert process.stdin and process.stdout and process.stderr
        self.out, self.talk = bytearray(), bytearray()
        self._given = memoryview(given)
        self._in, self._stdout, self._stderr = process.stdin, process.stdout, process.stderr
        for pipe in (self._in, self._stdout, self._stderr):
            os.set_blocking(pipe.fileno(), False)

    def pump(self, deadline: float, complete: Callable[[bytearray], bool], most: int) -> str | None:
        """Until stdout ends or is complete; else why not."""
        with selectors.DefaultSelector() as ready:
            ready.register(self._in, selectors.EVENT_WRITE)
            ready.register(self._stdout, selectors.EVENT_READ)
            ready.register(self._stderr, selectors.EVENT_READ)
            while (left := deadline - time.monotonic()) > 0:
                found = ready.select(min(left, TURN))
                if unwanted():
                    return "nobody waits for it any more"
                if not found and complete(self.out):
                    return None
                for key, _ in found:
                    if key.fileobj is self._in:
                        if not self._feed():
                            ready.unregister(self._in)
                            _close(self._in)
                    elif key.fileobj is self._stderr:
                        if not self._hear():
                            ready.unregister(self._stderr)
                    elif (piece := _take(self._stdout)) is not None:
                        self.out += piece
                        if not piece or complete(self.out):
                            return None
                        if len(self.out) > most:
                            return f"more than {most >> 20} MiB of output"
        return "late"

    def _feed(self) -> bool:
        """Write what the pipe takes; False: all is written, or nobody reads."""
        try:
            sent = os.write(self._in.fileno(), self._given[:_PIECE])
        except BlockingIOError:
            return True
        except BrokenPipeError:
            return False
        self._given = self._given[sent:]
        return bool(self._given)

    def _hear(self) -> bool:
        """Read a piece of stderr; False: it has ended."""
        piece = _take(self._stderr)
        self.talk += (piece or b"")[: MAX_TALK - len(self.talk)]
        return piece != b""

    def last_words(self) -> None:
        """What stderr still holds; it may stay open, held by a connection that is kept for others."""
        while len(self.talk) < MAX_TALK:
            before = len(self.talk)
            self._hear()
            if len(self.talk) == before:
                return


def _exit(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None


def _end(process: subprocess.Popen[bytes]) -> None:
    """End it and its children, whatever they do, and close every pipe."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None and not pipe.closed:
            _close(pipe)


def _take(pipe: IO[bytes]) -> bytes | None:
    """A piece; None: nothing is there yet; empty: it has ended."""
    try:
        return os.read(pipe.fileno(), _PIECE)
    except BlockingIOError:
        return None


def _close(pipe: IO[bytes]) -> None:
    try:
        pipe.close()
    except BrokenPipeError:
        return
