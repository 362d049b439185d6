"""What a verification has asked so far, for whoever wants to see it: written by many threads, read at any moment.

Nothing is told piece by piece: a stream counts its own pieces, and who looks adds them up. So a look costs the load
generator nothing.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from canserve.checks.served import form, formats, load, ready, right, speed
from canserve.checks.served.check import ServedCheck
from canserve.subjects.inquiry import Inquiry, Pace, Part, RankNow
from canserve.subjects.served import Served
from canserve.verdict import Finding, Yes, word, worst
from canserve.verify.reply import Stream

WINDOW = 1.5
"""Seconds over which the pace is taken."""
_LEAST = 0.3

ITSELF, FIRST, KNOWN, COPIES, ALONE, AGAIN = (
    "itself", "first question", "known answers", "every replica", "one by one", "same again",
)  # fmt: skip
TEXTS, FORMATS, LONG, LEFT, SPEED, CROWD = (
    "sentences", "formats", "long prompts", "hanging up", "speed", "crowd",
)  # fmt: skip
PARTS: dict[str, tuple[ServedCheck, ...]] = {
    ITSELF: (ready.READY, ready.RIGHT_MODEL),
    FIRST: (ready.ANSWERS, ready.METRICS),
    KNOWN: (right.CORRECT,),
    COPIES: (load.RANKS,),
    ALONE: (right.BATCH,),
    AGAIN: (form.REPEATS, form.STREAMS),
    TEXTS: (right.REPETITION, right.LANGUAGE, form.ENDS),
    FORMATS: (
        formats.REASONING, formats.CLOSED, formats.TOOL, formats.TOOL_STREAMED, formats.SCHEMA_KEPT, form.STOP,
        form.LOGPROBS,
    ),
    LONG: (load.LONG, load.TOO_LONG),
    LEFT: (load.CANCEL,),
    SPEED: (speed.CHECK,),
    CROWD: (load.OVERLOAD,),
}  # fmt: skip
"""In the order in which they are asked, with the checks that what they bring decides."""


class Ledger:
    """One verification. ``now`` is the reading side; everything else is called while it is made."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._start = time.monotonic()
        self._parts = {
            name: Part(name, tuple(check.name for check in checks)) for name, checks in PARTS.items()
        }
        self._current = ""
        self._began = 0.0
        self._open: set[Stream] = set()
        self._pieces = 0
        """Of streams that have ended."""
        self._counted = (0, 0)
        """Tokens by the server's count, and the pieces they came in: a piece may hold several."""
        self._first: float | None = None
        self._seen: deque[tuple[float, int]] = deque()
        self._ranks: tuple[RankNow, ...] = ()

    def begin(self, name: str, total: int = 0) -> None:
        """A part is asked now, with so many requests."""
        with self._lock:
            self._current, self._began = name, time.monotonic()
            self._parts[name] = replace(self._parts[name], begun=True, total=total)

    def detail(self, text: str, more: int = 0) -> None:
        """What of the part is being asked, and how many more requests that makes."""
        with self._lock:
            if (part := self._parts.get(self._current)) is not None:
                self._parts[part.name] = replace(part, detail=text, total=part.total + more)

    def end(self, served: Served) -> None:
        """The part has ended; what it found is what its checks say of the endpoint as far as it is known."""
        name = self._current
        judged = [one for check in PARTS[name] if isinstance(one := check.judge(served), Finding)]
        bad = [one for one in judged if not isinstance(one.verdict, Yes)]
        said = f"{bad[0].check}: {bad[0].verdict.because}" if bad else ", ".join(one.check for one in judged)
        found = word(worst(judged)) if judged else None
        with self._lock:
            took = time.monotonic() - self._began
            self._parts[name] = replace(
                self._parts[name], seconds=took, found=found, said=said or "does not apply", detail=""
            )
            self._current = ""

    @contextmanager
    def request(self, stream: Stream) -> Iterator[None]:
        """A request is open."""
        with self._lock:
            self._open.add(stream)
        try:
            yield
        finally:
            with self._lock:
                self._closed(stream)

    def _closed(self, stream: Stream) -> None:
        self._open.discard(stream)
        self._pieces += stream.arrived
        self._first = stream.first if stream.first is not None else self._first
        if stream.counted is not None and stream.arrived:
            tokens, pieces = self._counted
            self._counted = tokens + stream.counted, pieces + stream.arrived
        if (part := self._parts.get(self._current)) is not None:
            done = part.done + 1
            self._parts[part.name] = replace(part, done=done, total=max(part.total, done))

    def ranks(self, found: tuple[RankNow, ...]) -> None:
        """What a look at the deployment's machines found."""
        with self._lock:
            self._ranks = found

    def now(self) -> Inquiry:
        """Everything, as it is now."""
        with self._lock:
            at = time.monotonic()
            return Inquiry(at - self._start, tuple(self._parts.values()), self._pace(at), self._ranks)

    def _pace(self, at: float) -> Pace:
        pieces = self._pieces + sum(stream.arrived for stream in self._open)
        self._seen.append((at, pieces))
        while len(self._seen) > 2 and at - self._seen[1][0] >= WINDOW:
            self._seen.popleft()
        since, before = self._seen[0]
        rate = None
        if at - since >= _LEAST and pieces > before:
            tokens, counted = self._counted
            rate = (pieces - before) / (at - since) * (tokens / counted if counted else 1.0)
        first = next((stream.first for stream in self._open if stream.first is not None), self._first)
        return Pace(len(self._open), rate, first)
