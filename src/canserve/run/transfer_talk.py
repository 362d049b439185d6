"""Programs of ours on machines, spoken to from here: orders to them, lines from them, frames passed on between two."""

from __future__ import annotations

import ast
import json
import os
import queue
import secrets
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from canserve.commands import images, ssh
from canserve.engines.static.parsing import parsed
from canserve.transport.reach import Limits, control_socket
from canserve.transport.refusal import refusal

PARTS = ("wire", "digests", "send", "take", "load")
START = 40.0
"""Seconds that a program has to answer."""
STILL = 600.0
"""Seconds without any news after which a copy is given up; programs over there notice a dead machine far earlier."""
STANDING = {"copying": 1200.0, "loading": 3600.0}
"""Seconds by phase after which a copy that does not move is given up. Some engines write an archive out as a whole before
they pass any of it on, and all of them unpack it as a whole: tens of gigabytes on a slow disk."""
_MOST_LINE = 64 << 20
_BANNERS = 1 << 20


class TransferError(OSError):
    """Why nothing, or no more, was copied."""

    def __init__(self, why: str, kind: str = "Failed") -> None:
        super().__init__(why)
        self.kind = kind
        """``Cut``: what came is kept, and another attempt goes on from there. ``Unreached``: the way is not open."""


@cache
def source() -> str:
    """The program that runs over there: its parts in one text, without what only a reader needs."""
    body: list[ast.stmt] = []
    for name in PARTS:
        tree = parsed(files("canserve.run").joinpath(f"transfer_{name}.py").read_text("utf-8"))
        for each in tree.body:
            told = isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)
            ours = isinstance(each, ast.ImportFrom) and (each.module or "").split(".")[0] in {
                "canserve",
                "__future__",
            }
            if not told and not ours:
                body.append(each)
    body.insert(0, ast.ImportFrom("__future__", [ast.alias("annotations")], 0))
    module = ast.Module([*body, *parsed("main()").body], [])
    return ast.unparse(ast.fix_missing_locations(module))


class Far:
    """One program, running there."""

    def __init__(self, name: str, route: ssh.Route | None) -> None:
        self.name = name
        self._mark = secrets.token_hex(16)
        python = sys.executable if route is None else "python3"
        argv = shlex.join(images.program(python, source()))
        script = (
            f"main() {{\ncommand -v {shlex.quote(python)} >/dev/null 2>&1 || {{ echo 'python3 is not installed' >&2; exit 41; }}\n"
            f"printf '%s\\n' {self._mark}\nexec {argv}\n}}\nmain\n"
        )
        way = ("/bin/sh",) if route is None else ssh.shell(route, Limits().connect, control_socket())
        self._talk = tempfile.TemporaryFile()  # noqa: SIM115 - closed by ``close``
        self.process = subprocess.Popen(  # noqa: S603 - argv comes from ``commands``
            way,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._talk,
            bufsize=0,
            start_new_session=True,
            env={**os.environ, "SSH_ASKPASS_REQUIRE": "never", "LC_ALL": "C"},
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._in, self._out = self.process.stdin.fileno(), self.process.stdout.fileno()
        self._write(script.encode())
        self._greeted()

    def _greeted(self) -> None:
        """Until it runs. What is sent earlier could be swallowed by the shell that reads its script."""
        timer = threading.Timer(START, self.kill)
        timer.daemon = True
        timer.start()
        try:
            seen = 0
            while self._line() != self._mark.encode():
                seen += 1
                if seen > _BANNERS:
                    break
        except EOFError:
            raise TransferError(self._why(), "Unreached") from None
        finally:
            timer.cancel()

    def _line(self) -> bytes:
        found = bytearray()
        while not found.endswith(b"\n"):
            one = os.read(self._out, 1)
            if not one or len(found) > _MOST_LINE:
                raise EOFError
            found += one
        return bytes(found[:-1])

    def _why(self) -> str:
        """What it, or ssh, said last."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(3)
        self._talk.seek(0)
        talk = self._talk.read(16 << 10).decode("utf-8", "replace")
        status = self.process.poll()
        lines = [line for line in talk.splitlines() if line.strip()]
        if status is None or status == 255 or status < 0:
            return f"{self.name}: {refusal(talk, status, None, ()).why}"
        return f"{self.name}: {lines[-1].strip() if lines else f'exit status {status}'}"

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._in, rest) :]
        except OSError:
            raise TransferError(self._why(), "Cut") from None

    def order(self, **values: Any) -> None:
        """What it is to do next."""
        text = json.dumps(values).encode()
        self._write(b"%d\n%s" % (len(text), text))

    def answer(self) -> dict[str, Any]:
        """The next line, waited for without bound as long as it lives. Raises TransferError."""
        try:
            while True:
                found = _line_of_ours(self.name, self._line())
                if "failed" in found:
                    raise TransferError(f"{self.name}: {found['failed']}", found.get("kind", "Failed"))
                if set(found) != {"phase"}:
                    return found
        except EOFError:
            raise TransferError(self._why(), "Cut") from None

    def listen(self, into: queue.Queue[tuple[Far, dict[str, Any] | None]]) -> None:
        """From now on its lines are read by a thread; None when it has ended."""

        def hear() -> None:
            with suppress(EOFError, OSError, ValueError):
                while True:
                    into.put((self, _line_of_ours(self.name, self._line())))
            into.put((self, None))

        threading.Thread(target=hear, daemon=True).start()

    def pass_on(self, other: Far) -> None:
        """Whatever it writes goes to another one, until it ends."""

        def pump() -> None:
            with suppress(OSError, ValueError):
                while piece := os.read(self._out, 1 << 20):
                    other._write(piece)
            with suppress(OSError):
                other.process.stdin.close()  # type: ignore[union-attr]

        threading.Thread(target=pump, daemon=True).start()

    def ended(self) -> TransferError:
        """Why it ended without a word."""
        return TransferError(self._why(), "Cut")

    @property
    def failed(self) -> bool:
        """It has ended, and not well."""
        with suppress(subprocess.TimeoutExpired):
            return self.process.wait(1) != 0
        return False

    def kill(self) -> None:
        """Without a goodbye; what runs over there ends with its input."""
        if self.process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def close(self) -> None:
        """It ends, by itself or not."""
        with suppress(OSError):
            self.process.stdin.close()  # type: ignore[union-attr]
        try:
            self.process.wait(3)
        except subprocess.TimeoutExpired:
            self.kill()
            self.process.wait()
        with suppress(OSError):
            self.process.stdout.close()  # type: ignore[union-attr]
        self._talk.close()


def _line_of_ours(name: str, line: bytes) -> dict[str, Any]:
    """What a program says. Raises TransferError for what none of ours does."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise TransferError(f"{name}: what came is no answer of the program that was started")
    return found


@dataclass(frozen=True, slots=True)
class Came:
    """How far a copy is."""

    got: int
    """Bytes."""
    announced: int
    """Bytes, of which these are some: of an image all that has begun, of files also those that surely follow."""
    phase: str
    seconds: float


def secret() -> str:
    """Known to two programs and to nobody else."""
    return secrets.token_hex(16)


def follow(taker: Far, sender: Far | None, tell: Callable[[Came], None]) -> dict[str, Any]:
    """A copy to its end; ``tell`` gets what came so far. Raises TransferError.

    ``sender``: where it speaks to the other one by itself; else its lines are frames.
    """
    heard: queue.Queue[tuple[Far, dict[str, Any] | None]] = queue.Queue()
    for each in (taker, sender):
        if each is not None:
            each.listen(heard)
    begun, why, patience = time.monotonic(), None, STILL
    moved: tuple[object, str, float] = (0, "", begun)
    while True:
        try:
            who, found = heard.get(timeout=patience)
        except queue.Empty:
            raise why or TransferError(f"{taker.name}: nothing was heard for {STILL:.0f} s", "Cut") from None
        if found is None:
            failure: TransferError | None = who.ended() if who is taker or who.failed else None
        elif "failed" in found:
            failure = TransferError(f"{who.name}: {found['failed']}", found.get("kind", "Failed"))
        else:
            failure = None
            if "done" in found:
                done: dict[str, Any] = found["done"]
                return done
            if "got" in found:
                now, phase = time.monotonic(), str(found["phase"])
                if (found["got"], phase) != moved[:2]:
                    moved = (found["got"], phase, now)
                if now - moved[2] > STANDING.get(phase, STILL):
                    why_standing = f"nothing has moved for {now - moved[2]:.0f} s while {phase}"
                    raise TransferError(f"{taker.name}: {why_standing}")
                tell(Came(int(found["got"]), int(found["announced"]), phase, now - begun))
        if failure is not None:
            if who is taker or failure.kind != "Cut":
                raise failure
            why, patience = failure, 5.0  # the other end knows why its connection was closed
