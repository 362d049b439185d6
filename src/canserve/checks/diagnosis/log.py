"""What was read of a deployment's logs and stack dumps: pure records, nothing judged yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from canserve.rules.failures import Area, Place, Signature


@dataclass(frozen=True, slots=True)
class Moment:
    """When a line was written, as far as it says so; both in seconds."""

    clock: float | None = None
    """Since the year began, from a date and time in the line."""
    since_start: float | None = None
    """Since the log was begun, where a number of seconds leads every line."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line without its wrappings."""

    number: int
    """Counted from 1 in its file."""
    text: str
    """Without time, level, process and colours; control characters are still in it."""
    process: str = ""
    """``Worker_TP1``; empty where the line does not say."""
    pid: str = ""
    rank: int | None = None
    at: Moment = Moment()
    mild: bool = False
    """It was said as information or as a warning."""

    @property
    def who(self) -> str:
        """What tells its process from the others of one file: its number, which outlives its names."""
        return self.pid or self.process


@dataclass(frozen=True, slots=True)
class Event:
    """A line that says something: a signature recognises it, or it ends a traceback."""

    line: Line
    signature: Signature | None = None
    groups: Mapping[str, str] = field(default_factory=dict)
    """What the pattern captured."""
    area: Area | None = None
    """Of an exception without a signature: the part of an engine's source that raised it."""
    raised_at: str = ""
    """Of an exception: the innermost source file of its traceback, and line."""
    count: int = 1


@dataclass(slots=True)
class Process:
    """One process of a log: how far it came, and what it said last."""

    name: str = ""
    depth: int = 0
    rank: int | None = None
    phase: str | None = None
    phases: list[tuple[str, Line]] = field(default_factory=list)
    """The first line of every phase, in order of appearance."""
    last: Line | None = None


@dataclass(slots=True)
class Reading:
    """One file of a deployment."""

    name: str
    lines: int = 0
    events: list[Event] = field(default_factory=list)
    processes: dict[str, Process] = field(default_factory=dict)
    facts: dict[str, list[str]] = field(default_factory=dict)
    """Every value of ``version``, ``world``, ``address`` ... in order, each once."""
    engines: dict[str, int] = field(default_factory=dict)
    """How often lines of each engine were seen."""
    times: list[Moment] = field(default_factory=list)
    """Of the last lines, in order."""
    tail: list[Line] = field(default_factory=list)
    """The last few lines."""
    served_until: int = 0
    """The last line that shows it answering; 0: none does."""
    stacks: list[Stack] = field(default_factory=list)
    sockets: list[Socket] = field(default_factory=list)
    taken_at: float | None = None
    """Of a dump that says so: seconds since the start."""
    nodes_in_cluster: int | None = None
    """Of a cluster status: how many nodes it has."""
    problem: str = ""
    """Why it was not read, or not wholly."""


@dataclass(frozen=True, slots=True)
class Stack:
    """One process in a dump of stacks."""

    title: str
    host: str
    frames: tuple[str, ...]
    """``function (file:line)`` of its main thread, innermost first."""
    place: Place | None


@dataclass(frozen=True, slots=True)
class Socket:
    """One TCP connection, as ``ss`` prints it."""

    host: str
    state: str
    local: str
    peer: str
