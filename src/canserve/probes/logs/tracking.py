"""One process's log as it grows: how far each of its ranks has come, read once, piece by piece."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence

from canserve.checks.diagnosis.log import Line
from canserve.probes.logs.matching import Matcher
from canserve.probes.logs.unwrap import unwrap
from canserve.subjects.progress import Count, Told

FIRST, LAST = 1 << 20, 1 << 20
"""Bytes of a log that are kept for a diagnosis: its beginning, and its end."""
LONGEST = 64 << 10
_REFUSED = re.compile(r'HTTP/1\.[01]"? [45]\d\d\b')
_FACTS = ("world", "address", "advertised", "placing", "begun", "ended")
_VALUES = 64


class Tracker:
    """Fed with bytes; ``told`` is what they come down to."""

    def __init__(self, matcher: Matcher, engine: str, ranks: Sequence[int]) -> None:
        """``ranks``: those that the process starts."""
        self._matcher, self._engine, self._ranks = matcher, engine, frozenset(ranks)
        self._of: dict[str, int] = {}
        """The rank of each process that named its own."""
        self._phases: dict[int | None, set[str]] = {}
        self._unsaid: dict[str, set[str]] = {}
        """The phases of each process that has not named a rank yet."""
        self._counts: dict[int | None, Count] = {}
        self._facts: dict[str, list[str]] = {}
        self._news = 0
        self._last: deque[bytes] = deque(maxlen=8)
        self._rest = b""
        self._rest_count: Count | None = None
        self._number = 0
        self._first, self._tail = bytearray(), bytearray()
        self.size = 0
        """Bytes so far."""

    def feed(self, data: bytes) -> None:
        """Read on."""
        self.size += len(data)
        room = FIRST - len(self._first)
        self._first += data[:room]
        self._tail += data[max(room, 0) :]
        del self._tail[:-LAST]
        if data and not data.strip(b"."):
            self._news += 1  # dots, one after the other, are a progress bar too
        *whole, self._rest = (self._rest + data).split(b"\n")
        for raw in whole:
            self._line(raw)
        if len(self._rest) > LONGEST:
            self._rest = self._rest[-LONGEST:]
        if self._rest.strip():
            self._bar()

    @property
    def told(self) -> Told:
        """What has been written so far."""
        facts = {name: tuple(values) for name, values in self._facts.items()}
        said = (unwrap(raw, 0).text.strip() for raw in reversed(self._last))
        last = next((text[:400] for text in said if text), "")
        phases = {rank: frozenset(found) for rank, found in self._phases.items()}
        return Told(phases, dict(self._counts), self._news, last, facts)

    @property
    def kept(self) -> bytes:
        """The log, or its beginning and its end."""
        return bytes(self._first + self._tail)

    def _bar(self) -> None:
        """A progress bar is one line that is drawn over until its phase is done."""
        if self._matcher.steps.search(self._rest) is None:
            return
        line = unwrap(self._rest, 0)
        held = self._matcher.inside(line.text)
        counted = self._matcher.counts(held, line.text)
        if counted is not None and counted != self._rest_count:
            self._rest_count = counted
            self._count(line, counted)

    def _line(self, raw: bytes) -> None:
        self._number += 1
        raw = raw[:LONGEST]
        if not raw.strip():
            return
        self._last.append(raw)
        if self._matcher.steps.search(raw) is None:
            self._news += 1
            return
        line = unwrap(raw, self._number)
        held = self._matcher.inside(line.text)
        if not self._matcher.waits(held):
            self._news += 1
        if not held:
            return
        self._tell(line, held)
        for engine, phase in self._matcher.marks(held):
            if engine in ("", self._engine) and phase != "stopping" and not refused(line.text, phase):
                self._mark(line, phase)
        if (counted := self._matcher.counts(held, line.text)) is not None:
            self._rest_count = None
            self._count(line, counted)

    def _tell(self, line: Line, held: Sequence[str]) -> None:
        for row, groups in self._matcher.tells(held, line.text):
            if row.engine not in ("", self._engine):
                continue
            for name in _FACTS:
                values = self._facts.setdefault(name, [])
                if (value := groups.get(name, "")[:200]) and value not in values and len(values) < _VALUES:
                    values.append(value)
            if "rank" in groups and line.who:
                self._named(line.who, int(groups["rank"][:6]))

    def _named(self, who: str, rank: int) -> None:
        """A process names its rank: what it said before was that rank's."""
        rank = rank if rank in self._ranks or len(self._ranks) != 1 else next(iter(self._ranks))
        if rank in self._ranks and len(self._of) < 4096:
            self._of[who] = rank
            self._phases.setdefault(rank, set()).update(self._unsaid.pop(who, ()))

    def _rank(self, line: Line) -> int | None:
        if (named := self._of.get(line.who)) is not None:
            return named
        return line.rank if line.rank in self._ranks else None

    def _mark(self, line: Line, phase: str) -> None:
        rank = self._rank(line)
        if rank is None and line.who and self._matcher.depth(line.process) > 1:
            if line.who in self._unsaid or len(self._unsaid) < 4096:
                self._unsaid.setdefault(line.who, set()).add(phase)
            if len(self._ranks) > 1:
                return  # one of several: it does not speak for all
        self._phases.setdefault(rank, set()).add(phase)

    def _count(self, line: Line, count: Count) -> None:
        rank = self._rank(line)
        self._counts[rank] = count
        self._phases.setdefault(rank, set()).add(count.phase)
        self._news += 1


def refused(text: str, phase: str) -> bool:
    """Whether a line of an answered request says that it was none."""
    return phase == "serving" and _REFUSED.search(text) is not None
