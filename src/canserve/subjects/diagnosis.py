"""What a deployment's logs come down to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["failed", "stalled", "starting", "serving", "stopped", "unknown"]


@dataclass(frozen=True, slots=True)
class Said:
    """A line of a log, where it stands and who said it."""

    file: str
    line: int
    text: str
    process: str = ""


@dataclass(frozen=True, slots=True)
class Standing:
    """How far one process came."""

    file: str
    process: str
    rank: int | None
    phase: str | None
    """The furthest phase of a start that it reached; None: it marked none."""
    place: str | None
    """Where its stack stands, from a dump."""
    last: Said | None
    """The last line it wrote."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The first cause, and what is only its consequence."""

    state: State
    engine: str | None
    engine_version: str | None
    phase: str | None
    """That the failing process had reached; without a failure the one of the process that is least far."""
    kind: str | None
    """None: it cannot be told, or there is nothing to tell."""
    name: str | None
    """The finer name within the kind."""
    cause: Said | None
    because: str
    fix: str
    next_look: tuple[str, ...]
    standings: tuple[Standing, ...] = ()
    consequences: tuple[Said, ...] = ()
    also: tuple[Said, ...] = ()
    """Further lines that may matter: other causes, in order."""
    source: str = ""
    """Where the knowledge comes from."""
    lines: int = 0
    unread: tuple[str, ...] = ()
    """Files that could not be read, and why."""
