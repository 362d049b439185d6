"""One log, streamed once: what its lines say, how far its processes came, what they said last.

A sieve of literals picks the lines that are worth a look; only these are unwrapped and asked. A literal that was
seen too often leaves the sieve, so that a flood of one message costs no more than reading past it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from canserve.checks.diagnosis.log import Event, Line, Moment, Process, Reading
from canserve.probes.logs.blocks import Block, Source, blocks
from canserve.probes.logs.dumps import DumpReader
from canserve.probes.logs.matching import GENERIC, Matcher, Recognised, sieve
from canserve.probes.logs.unwrap import MAX_LINE, unwrap
from canserve.rules.failures import Area, Telling

FLOOD = 500
"""Lines with the same literal that are looked at."""
MAX_EVENTS = 3000
MAX_PROCESSES = 4096
"""Processes that are told apart; whatever more names there are count as one."""
MAX_KEPT = 4000
"""Letters of a line that are kept."""
LAST_LINES = 10
"""Lines that are kept as they are."""
_BEFORE = 16 << 10
"""Bytes before a line in which its traceback is looked for."""
_TAIL = 256 << 10
"""Bytes at the end whose lines are all unwrapped."""
_FRAME = re.compile(r'File \\?"([^"\\\n]{1,300})\\?", line (\d{1,7}), in ([\w<>.]{1,100})')
_DUMP = (b"(active", b"(idle", b"Current thread 0x", b"### host", b"### sockets", b"Autoscaler status")
"""Words of which every dump holds one."""
_DUMPED = 64 << 20
"""Bytes that are read as a dump."""
_CLAIM = re.compile(r"\b(assert [^\n]{1,300})\s*(?:\n[^\n]*[~^]+\s*)?\Z")
"""What an assertion without a message says: its own code, quoted in the line above it."""
_REFUSED = re.compile(r'HTTP/1\.[01]"? [45]\d\d\b| [45]\d\d$')
_UNDER_FRAME = 3
"""Ends of lines between a frame and what was raised there: of its own, its code, and the marks below."""
_FACTS = ("version", "world", "local", "address", "advertised", "begun", "ended")
_TRACEBACK = "Traceback (most recent call last)"


def read_log(name: str, source: Source, matcher: Matcher) -> Reading:
    """Everything that is kept of one file. Constant memory, whatever its size."""
    reader = _Reader(name, matcher)
    for block in blocks(source):
        reader.block(block)
    return reader.end()


class _Reader:
    def __init__(self, name: str, matcher: Matcher) -> None:
        self._matcher = matcher
        self._reading = Reading(name)
        self._seen: Counter[str] = Counter()
        self._active = dict.fromkeys([*matcher.literals, *GENERIC])
        self._sieve = sieve(self._active)
        self._before = b""
        self._tail = Block(b"", 1)
        self._dump = DumpReader(matcher)
        self._dumped = 0
        self._at = Moment()
        self._events: dict[tuple[str, str, str], int] = {}

    def block(self, block: Block) -> None:
        # The end of the last line is looked for as every other line's is.
        data = block.data if block.data.endswith(b"\n") else block.data + b"\n"
        position, counted, number = 0, 0, block.first
        while (hit := self._sieve.search(data, position)) is not None:
            start = max(data.rfind(b"\n", 0, hit.start()) + 1, hit.start() - MAX_LINE)
            end = data.find(b"\n", hit.end() - 1)
            end = len(data) if end < 0 else end
            number += data.count(b"\n", counted, start)
            counted = start
            raw = data[start : min(end, hit.end() + MAX_LINE)]
            before = data[max(start - _BEFORE, 0) : start]
            if len(before) < _BEFORE and start <= _BEFORE:
                before = self._before[len(before) - _BEFORE :] + before
            self._line(raw, number, before.decode("utf-8", "replace"), hit.group().decode())
            position = max(min(end, hit.end() + MAX_LINE), hit.end())
        if self._dumped < _DUMPED and any(word in data for word in _DUMP):
            self._dumped += len(data)
            self._dump.feed(data.decode("utf-8", "replace").splitlines())
        self._before = data[-_BEFORE:] if len(data) >= _BEFORE else (self._before + data)[-_BEFORE:]
        self._keep_tail(block)

    def _keep_tail(self, block: Block) -> None:
        if len(block.data) < _TAIL:
            data, first = self._tail.data + block.data, self._tail.first
        else:
            data, first = block.data, block.first
        cut = len(data) - _TAIL
        if cut > 0:
            cut = max(data.find(b"\n", cut) + 1, cut if b"\n" not in data[cut:] else 0)
            first += data.count(b"\n", 0, cut)
            data = data[cut:]
        self._tail = Block(data, first)
        whole = block.data.count(b"\n")
        self._reading.lines = block.first + whole - block.data.endswith(b"\n")

    def _line(self, raw: bytes, number: int, before: str, literal: str) -> None:
        whole = self._timed(unwrap(raw, number))
        held = self._matcher.inside(whole.text)
        self._count({literal, *held})
        if self._is_code(whole.text, before):
            return
        if whole.text.strip() == "AssertionError" and (claim := _CLAIM.search(before)) is not None:
            whole = replace(whole, text=f"AssertionError: {claim[1]}")
            held = self._matcher.inside(whole.text)
        alone = not before.strip()
        recognised = self._matcher.recognise(held, whole.text, before, alone)
        line = _kept(whole)
        self._tell(line, self._matcher.tells(held, whole.text))
        if recognised is not None and recognised.signature.role == "harmless":
            return
        for engine, phase in self._matcher.marks(held):
            self._mark(line, engine, phase)
        if recognised is not None or self._matcher.ends_traceback(line.text):
            self._event(line, recognised, before)

    def _timed(self, line: Line) -> Line:
        """With the time of the lines before it where it has none of its own."""
        at = line.at
        if at.clock is None and at.since_start is None:
            return replace(line, at=self._at)
        self._at = at
        return line

    def _count(self, literals: set[str]) -> None:
        gone = []
        for literal in literals:
            self._seen[literal] += 1
            if self._seen[literal] > FLOOD and literal in self._active:
                gone.append(literal)
        if gone:
            for literal in gone:
                del self._active[literal]
            self._sieve = sieve(self._active or ["\x00canserve: nothing is looked for any more\x00"])

    @staticmethod
    def _is_code(text: str, before: str) -> bool:
        """Whether the line only quotes source code below a frame of a traceback."""
        return text.startswith("    ") and _FRAME.search(before[before.rfind("\n", 0, -1) + 1 :]) is not None

    def _event(self, line: Line, recognised: Recognised | None, before: str) -> None:
        signature = recognised.signature if recognised else None
        key = (signature.name if signature else "", line.text[:300], line.who)
        events = self._reading.events
        if (known := self._events.get(key)) is not None:
            events[known] = replace(events[known], count=events[known].count + 1)
            return
        if len(events) >= MAX_EVENTS:
            return
        frames = _frames(before)
        area = self._area([path for path, _, _ in frames], line.text) if signature is None else None
        raised_at = f"{frames[-1][0]}:{frames[-1][1]}" if frames else ""
        groups = {name: value[:MAX_KEPT] for name, value in recognised.groups.items()} if recognised else {}
        self._events[key] = len(events)
        events.append(Event(line, signature, groups, area, raised_at))

    def _area(self, paths: list[str], text: str) -> Area | None:
        """Of the innermost frame, and no other: what lies further out only called it."""
        if not paths:
            return None
        path = paths[-1].replace("\\", "/")
        areas = (area for area in self._matcher.knowledge.areas if within(area, path))
        return next((area for area in areas if not any(word in text for word in area.unless)), None)

    def _process(self, line: Line) -> Process:
        processes = self._reading.processes
        who = line.who if line.who in processes or len(processes) < MAX_PROCESSES else ""
        process = processes.setdefault(who, Process())
        if line.process and line.process != process.name:
            process.name = line.process
            process.depth = max(process.depth, self._matcher.depth(line.process))
        if line.rank is not None:
            process.rank = line.rank
        return process

    def _mark(self, line: Line, engine: str, phase: str) -> None:
        process, order = self._process(line), self._matcher.knowledge.order
        if engine:
            self._reading.engines[engine] = self._reading.engines.get(engine, 0) + 1
        if phase == "serving" and _REFUSED.search(line.text) is None:
            self._reading.served_until = line.number
        if phase not in [seen for seen, _ in process.phases]:
            process.phases.append((phase, line))
        if process.phase is None or order[phase] >= order[process.phase]:
            process.phase = phase

    def _answers(self, text: str) -> bool:
        """Whether a line shows a server that answers; one that refuses may be dead within."""
        marks = self._matcher.marks(self._matcher.inside(text))
        return any(phase == "serving" for _, phase in marks) and _REFUSED.search(text) is None

    def _tell(self, line: Line, told: Sequence[tuple[Telling, Mapping[str, str]]]) -> None:
        for row, groups in told:
            if row.engine:
                self._reading.engines[row.engine] = self._reading.engines.get(row.engine, 0) + 1
            for name in _FACTS:
                values = self._reading.facts.setdefault(name, [])
                if (value := groups.get(name, "")[:200]) and value not in values and len(values) < 64:
                    values.append(value)
            if (rank := groups.get("rank")) is not None:
                self._process(line).rank = int(rank[:9])

    def end(self) -> Reading:
        reading = self._reading
        for number, raw in enumerate(self._tail.data.splitlines(), self._tail.first):
            line = _kept(unwrap(raw[:MAX_LINE], number))
            if line.text.strip():
                self._process(line).last = line
                if self._answers(line.text):
                    reading.served_until = number
                if line.at.clock is not None or line.at.since_start is not None:
                    reading.times.append(line.at)
                reading.tail = [*reading.tail[1 - LAST_LINES :], line]
        self._dump.end()
        reading.stacks, reading.sockets = self._dump.stacks, self._dump.sockets
        reading.taken_at, reading.nodes_in_cluster = self._dump.taken_at, self._dump.nodes
        if any(stack.title for stack in reading.stacks):
            # A dump only quotes what a log said; that log has it in its place.
            reading.events, reading.processes, reading.times = [], {}, []
        return reading


def _frames(before: str) -> list[tuple[str, str, str]]:
    """Of the traceback that ends here, outermost first. One that was pasted without its head ends right here."""
    if _TRACEBACK in before:
        return _FRAME.findall(before[before.rfind(_TRACEBACK) :])
    last = max((hit.end() for hit in _FRAME.finditer(before)), default=None)
    pasted = last is not None and before.count("\n", last) <= _UNDER_FRAME
    return _FRAME.findall(before) if pasted else []


def _kept(line: Line) -> Line:
    return line if len(line.text) <= MAX_KEPT else replace(line, text=line.text[:MAX_KEPT])


def within(area: Area, path: str) -> bool:
    """Whether a source file is in an area; ``*`` stands for anything."""
    return any(_glob(text).search(path) is not None for text in area.files)


_GLOBS: dict[str, re.Pattern[str]] = {}


def _glob(text: str) -> re.Pattern[str]:
    if text not in _GLOBS:
        _GLOBS[text] = re.compile("(?:^|/)" + re.escape(text).replace(r"\*", ".*") + "$")
    return _GLOBS[text]
