"""How far ranks have come, with --format json; the rules of ``shapes`` hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated


@dataclass(frozen=True, slots=True)
class PhaseShape:
    """A phase that a rank entered."""

    phase: str
    at_s: Annotated[float, "Seconds since everything had been started."]


@dataclass(frozen=True, slots=True)
class RankShape:
    """One rank on its way."""

    rank: Annotated[int | None, "null: its process only joins machines."]
    process: int
    machine: str
    phase: Annotated[str, "The furthest that it entered."]
    says: Annotated[str, "The same in words, with its progress bar where it has one."]
    phases: tuple[PhaseShape, ...]
    moved_s: Annotated[float, "When something of it moved last."]
    sign: Annotated[str, "What that was."]
    last_line: str
