"""One command's output as a stream that is read while it comes: for files too large to be held in memory."""

from __future__ import annotations

import os
import secrets
import shlex
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO

from canserve.commands import ssh
from canserve.transport.links import LINKS
from canserve.transport.reach import Limits, control_socket

_PIECE = 1 << 16
_BANNERS = 1 << 20
"""Bytes of greetings that are passed over."""


class PourError(OSError):
    """Nothing, or no more, came of it; carries why."""


@contextmanager
def poured(route: ssh.Route | None, argv: Sequence[str], seconds: float) -> Iterator[Poured]:
    """Run a command that only reads, here (no route) or over ssh. Raises PourError; reading ends after ``seconds``."""
    mark = secrets.token_hex(16)
    if route is not None and (link := LINKS.of(route.destination)) is not None:
        with tempfile.TemporaryFile() as file:
            file.write(f"{mark}\n".encode() + link.pour(route.destination, argv))
            file.seek(0)
            yield Poured(file, mark, lambda: None)
        return
    script = f"main() {{\nprintf '%s\\n' {mark}\nexec {shlex.join(argv)} </dev/null 2>/dev/null\n}}\nmain\n"
    way = ("/bin/sh",) if route is None else ssh.shell(route, Limits().connect, control_socket())
    try:
        process = subprocess.Popen(  # noqa: S603 - argv comes from ``commands``
            way,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, "SSH_ASKPASS_REQUIRE": "never", "LC_ALL": "C"},
        )
    except OSError as error:
        raise PourError(f"{way[0]} cannot be run here: {error.strerror}") from None
    timer = threading.Timer(seconds, _kill, (process,))
    timer.daemon = True
    timer.start()
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with suppress(BrokenPipeError):
            process.stdin.write(script.encode())
            process.stdin.close()
        yield Poured(process.stdout, mark, lambda: _kill(process))
    finally:
        timer.cancel()
        _kill(process)
        process.stdout.close()
        with suppress(BrokenPipeError):
            process.stdin.close()
        process.wait()


class Poured:
    """What the command writes, greetings before it left out."""

    def __init__(self, handle: IO[bytes], mark: str, end: Callable[[], None]) -> None:
        self._handle = handle
        self.end = end
        """Ends the command, from whichever thread: what is read then comes to its end."""
        self._first = b""
        line = f"{mark}\n".encode()
        seen = b""
        while line not in seen:
            piece = os.read(handle.fileno(), _PIECE)
            if not piece or len(seen) > _BANNERS:
                raise PourError("the machine ran nothing")
            seen += piece
        self._first = seen.partition(line)[2]

    def read(self, size: int) -> bytes:
        """At most ``size`` bytes; none at the end."""
        if self._first:
            data, self._first = self._first[:size], self._first[size:]
            return data
        return os.read(self._handle.fileno(), min(size, 1 << 20))


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
