"""A port of a machine that is only reached over ssh, led to a socket here that is this user's alone."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from canserve.commands import ssh
from canserve.transport.reach import Limits
from canserve.transport.refusal import refusal

_LOOK = 0.05
_TALK = 64 << 10
"""Bytes of what ssh says that are read."""
_END = 5.0


class ForwardError(OSError):
    """The port cannot be reached that way; says why. ``ask`` says what would settle it."""

    def __init__(self, why: str, ask: str = "") -> None:
        super().__init__(why)
        self.ask = ask


@contextmanager
def forwarded(route: ssh.Route, port: int) -> Iterator[str]:
    """The path of a socket that leads to a port of the machine's own loopback. Raises ForwardError."""
    with tempfile.TemporaryDirectory(prefix="canserve-") as folder:
        socket, talk = Path(folder, "s"), Path(folder, "talk")
        argv = ssh.forward(route, Limits().connect, str(socket), port)
        with talk.open("wb") as said:
            try:
                process = subprocess.Popen(  # noqa: S603 - argv comes from ``commands``
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=said,
                    start_new_session=True,
                )
            except OSError as error:
                raise ForwardError(f"{argv[0]} cannot be run here: {error.strerror}") from None
        try:
            _wait(process, socket, talk, route)
            yield str(socket)
        finally:
            process.terminate()
            try:
                process.wait(_END)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(process: subprocess.Popen[bytes], socket: Path, talk: Path, route: ssh.Route) -> None:
    """Until the socket is there. Raises ForwardError."""
    whole = Limits().whole
    end = time.monotonic() + whole
    while not socket.exists():
        late = time.monotonic() > end
        if late or process.poll() is not None:
            with talk.open("rb") as said:
                words = said.read(_TALK).decode("utf-8", "replace")
            ended = f"no answer within {whole:.0f} s" if late else None
            why = refusal(words, process.poll(), ended, route.through)
            raise ForwardError(why.why, why.ask.replace("HOST", route.destination))
        time.sleep(_LOOK)
