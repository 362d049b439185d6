"""Stack dumps: py-spy's text, faulthandler's tracebacks, and the sockets that ``ss`` lists beside them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from canserve.checks.diagnosis.log import Socket, Stack
from canserve.probes.logs.matching import Matcher

_TAKEN = re.compile(r"t=(\d{1,9}(?:\.\d{1,3})?)s?\b")
_HOST = re.compile(r"#{1,4} (?:host|node|sockets) (\S{1,80})")
_PROCESS = re.compile(r"Process (\d{1,9}): (.{0,400})")
_THREAD = re.compile(r"(?:Current thread|Thread) (?:0x)?[0-9a-f]{1,20}\b.{0,120}")
_FRAME = re.compile(r" {2,8}(\S.{0,200}?) \(([^()]{1,300}(?::\d{1,7})?)\)$")
_FAULT_FRAME = re.compile(r' {2}File "([^"]{1,300})", line (\d{1,7}) in (.{1,200})$')
_SOCKET = re.compile(
    r"([A-Z][A-Z0-9-]{3,11}) +\d{1,12} +\d{1,12} +(\S{3,80}:\S{1,6}) +(\S{3,80}:\S{1,6})(?: |$)"
)
_CLUSTER_NODE = re.compile(r" ?\d{1,4} node_[0-9a-f]{8,64}")
MARKS = ("Thread ", "Current thread ", "### host", "### sockets", "Process ", "SYN-SENT", "ESTAB")


class DumpReader:
    """Fed with the lines of a dump; keeps what it has found. Anything else is passed over."""

    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher
        self._host = ""
        self._title = ""
        self._frames: list[str] = []
        self._in_main = False
        self._seen_thread = False
        self.taken_at: float | None = None
        self.stacks: list[Stack] = []
        self.sockets: list[Socket] = []
        self.nodes: int | None = None
        self._in_cluster = False

    def feed(self, lines: Iterable[str]) -> None:
        """Read on."""
        for line in lines:
            self._line(line)

    def end(self) -> None:
        """No more lines: the last stack is whole."""
        if self._frames and len(self.stacks) < 4096:
            frames = tuple(self._frames)
            self.stacks.append(Stack(self._title, self._host, frames, self._matcher.place(frames)))
        self._frames, self._in_main = [], False

    def _line(self, line: str) -> None:
        if self._in_main and (frame := _frame(line)) is not None:
            if len(self._frames) < 200:
                self._frames.append(frame)
            return
        if (hit := _PROCESS.match(line)) is not None:
            self.end()
            self._title, self._seen_thread = hit[2], False
        elif _THREAD.match(line) is not None:
            # The main thread comes first in py-spy's dumps and last in faulthandler's, which marks the current.
            main = "MainThread" in line or line.startswith("Current thread") or not self._seen_thread
            if main:
                self.end()
            self._in_main, self._seen_thread = main, True
        elif (hit := _HOST.match(line)) is not None:
            self.end()
            self._host = hit[1]
        elif (hit := _SOCKET.match(line)) is not None and len(self.sockets) < 4096:
            self.sockets.append(Socket(self._host, hit[1], hit[2], hit[3]))
        elif self.taken_at is None and (hit := _TAKEN.match(line)) is not None:
            self.taken_at = float(hit[1])
        elif line.startswith("=") and "Autoscaler status" in line:
            self._in_cluster, self.nodes = True, 0
        elif self._in_cluster and _CLUSTER_NODE.match(line) is not None and self.nodes is not None:
            self.nodes += 1
        elif line.startswith("Pending:"):
            self._in_cluster = False


def _frame(line: str) -> str | None:
    if (hit := _FRAME.match(line)) is not None:
        return f"{hit[1]} ({hit[2]})"
    if (hit := _FAULT_FRAME.match(line)) is not None:
        return f"{hit[3]} ({hit[1]}:{hit[2]})"
    return None
