"""The rows of ``rules.failures``, compiled: which line is worth a look, and what it says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import re2  # type: ignore[import-untyped]

from canserve.rules.failures import Knowledge, Place, Signature, Telling
from canserve.subjects.progress import Count

_MEMORY = 1 << 20
_SIEVE_MEMORY = 64 << 20
EXCEPTION = r"^(?:[\w]+\.)*[A-Z]\w*(?:Error|Exception|Exit|Failure|Interrupt|Died|Mismatch)\b(?:: |:?$)|^ {0,4}(?:Value error|Assertion failed), "
"""The last line of a traceback; pydantic says it in the line below."""
_CPP = r"(?:terminate called after throwing|^Fatal Python error: |^  what\(\):|^Segmentation fault|^Aborted \(core|^\[[A-Za-z-]+\]\[ERROR\] .*ssertion fail)"
GENERIC: tuple[str, ...] = (
    *("Error:", "Error\n", "Exception:", "Exception\n", "terminate called after throwing", "what():"),
    *("Fatal Python error", "Segmentation fault", "Aborted (core", "ERROR", "[E]", "error: ", "FATAL"),
)
"""What may begin or end an error that no row knows."""


class Match(Protocol):
    """A match of a pattern."""

    def start(self) -> int:
        """Of the whole match."""
        ...

    def end(self) -> int:
        """Of the whole match."""
        ...

    def groupdict(self) -> dict[str, str | None]:
        """Named groups."""
        ...

    def group(self) -> bytes:
        """The whole match; bytes of a pattern over bytes."""
        ...


class Pattern(Protocol):
    """A compiled pattern."""

    def search(self, text: str | bytes, pos: int = 0) -> Match | None:
        """The leftmost match from a position."""
        ...


def _pattern(text: str) -> Pattern:
    options = re2.Options()
    options.max_mem = _MEMORY
    options.log_errors = False
    return cast("Pattern", re2.compile(text, options))


def sieve(literals: Iterable[str]) -> Pattern:
    """One pattern that finds the first of many literals in bytes, in one pass."""
    options = re2.Options()
    options.max_mem = _SIEVE_MEMORY
    options.encoding = re2.Options.Encoding.LATIN1
    options.log_errors = False
    return cast("Pattern", re2.compile(b"|".join(re2.escape(each.encode()) for each in literals), options))


class _Literals:
    """Which of many literals a text holds, in one pass."""

    def __init__(self, literals: Sequence[str]) -> None:
        options = re2.Options()
        options.literal = True
        options.log_errors = False
        options.max_mem = _SIEVE_MEMORY
        self._literals = literals
        self._set = re2.Set.SearchSet(options)
        for literal in literals:
            self._set.Add(literal)
        self._set.Compile()

    def inside(self, text: str) -> tuple[str, ...]:
        """Those that the text holds."""
        return tuple(self._literals[number] for number in self._set.Match(text) or ())


@dataclass(frozen=True, slots=True)
class Recognised:
    """What a line says."""

    signature: Signature
    groups: Mapping[str, str]


class Matcher:
    """Everything that is asked of a line."""

    def __init__(self, knowledge: Knowledge) -> None:
        self.knowledge = knowledge
        self._rows = _by_literal((row.find, number) for number, row in enumerate(knowledge.signatures))
        self._tells = _by_literal((row.find, number) for number, row in enumerate(knowledge.tellings))
        self._marks = {
            literal: (marker.engine, marker.phase) for marker in knowledge.markers for literal in marker.find
        }
        self.literals = tuple(dict.fromkeys([*self._rows, *self._tells, *self._marks]))
        self._counters = _by_literal((row.find, number) for number, row in enumerate(knowledge.counters))
        self._waiting = frozenset(knowledge.waiting)
        self._inside = _Literals(tuple(dict.fromkeys([*self.literals, *self._counters, *knowledge.waiting])))
        self.steps = sieve([*self._tells, *self._marks, *self._counters, *knowledge.waiting])
        """Finds in bytes what tells how far a start has come."""
        self._compiled: dict[str, Pattern] = {}
        self._exception, self._cpp = _pattern(EXCEPTION), _pattern(_CPP)
        self._depths = [(depth, [_pattern(each) for each in texts]) for depth, texts in knowledge.processes]

    def inside(self, text: str) -> tuple[str, ...]:
        """The literals of all rows that a line holds."""
        return self._inside.inside(text)

    def recognise(self, held: Sequence[str], text: str, before: str, alone: bool) -> Recognised | None:
        """The first row that holds for a line. ``before``: the lines above it; ``alone``: there are none."""
        numbers = sorted({number for literal in held for number in self._rows.get(literal, ())})
        for number in numbers:
            row = self.knowledge.signatures[number]
            groups = self._groups(row.match, text)
            if groups is not None and _holds(row, groups, text, before, alone):
                return Recognised(row, groups)
        return None

    def marks(self, held: Sequence[str]) -> tuple[tuple[str, str], ...]:
        """Engine and phase of every marker among the literals."""
        return tuple(self._marks[literal] for literal in held if literal in self._marks)

    def tells(self, held: Sequence[str], text: str) -> tuple[tuple[Telling, Mapping[str, str]], ...]:
        """The facts that a line tells."""
        numbers = sorted({number for literal in held for number in self._tells.get(literal, ())})
        found = []
        for number in numbers:
            row = self.knowledge.tellings[number]
            if (groups := self._groups(row.match, text)) is not None:
                found.append((row, groups))
        return tuple(found)

    def counts(self, held: Sequence[str], text: str) -> Count | None:
        """How far the progress bar of a line is; None: it is none."""
        for number in sorted({number for literal in held for number in self._counters.get(literal, ())}):
            row = self.knowledge.counters[number]
            groups = self._groups(row.match, text)
            if groups is not None and len(groups.get("done", "") + groups.get("total", "")) < 16:
                return Count(row.phase, int(groups["done"]), int(groups["total"]))
        return None

    def waits(self, held: Sequence[str]) -> bool:
        """Whether a line only says that it still waits."""
        return not self._waiting.isdisjoint(held)

    def ends_traceback(self, text: str) -> bool:
        """Whether a line names an exception or a crash."""
        return self._exception.search(text) is not None or self._cpp.search(text) is not None

    def depth(self, process: str) -> int:
        """How far inside a process of that name is."""
        for depth, patterns in self._depths:
            if any(pattern.search(process) for pattern in patterns):
                return depth
        return 0

    def lasts(self, title: str) -> bool:
        """Whether a process of that title lives as long as its server."""
        return self._groups(self.knowledge.lasting, title) is not None

    def place(self, frames: Sequence[str]) -> Place | None:
        """Where a stack stands: the first place that one of its innermost frames is in."""
        for frame in frames[:40]:
            for place in self.knowledge.places:
                if self._groups(place.frame, frame) is not None:
                    return place
        return None

    def _groups(self, patterns: Sequence[str], text: str) -> Mapping[str, str] | None:
        """What the first pattern that is found captures; an empty mapping where there is no pattern."""
        if not patterns:
            return {}
        for source in patterns:
            pattern = self._compiled.get(source)
            if pattern is None:
                pattern = self._compiled[source] = _pattern(source)
            if (hit := pattern.search(text)) is not None:
                return {name: value for name, value in hit.groupdict().items() if value}
        return None


def _by_literal(rows: Iterable[tuple[tuple[str, ...], int]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for literals, number in rows:
        for literal in literals:
            found.setdefault(literal, []).append(number)
    return found


def _holds(row: Signature, groups: Mapping[str, str], text: str, before: str, alone: bool) -> bool:
    if row.listed and text.count(f"'{groups.get('name', '')}'") < 2:
        return False
    if any(word in text for word in row.unless):
        return False
    if row.differ and len({groups.get(name) for name in row.differ}) < 2:
        return False
    if not row.near or (row.alone and alone):
        return True
    return any(word in text or word in before for word in row.near)
