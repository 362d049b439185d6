"""One command on one machine, and where it stands among the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby


@dataclass(frozen=True, slots=True)
class Step:
    """One command on one machine, exactly as it is run there."""

    name: str
    """What it does: ``claim``, ``start`` ..."""
    machine: str
    argv: tuple[str, ...]
    stage: int
    """All of a stage have succeeded before the next begins; within one, every machine goes on by itself."""
    failed: str
    """What it means when it fails, in a few words."""
    process: int | None = None
    """The process that it starts or waits for."""
    patience: float = 0.0
    """Repeated until it succeeds, for so many seconds; 0: run once."""
    seconds: float = 40.0
    """How long one attempt may take."""


def stages(steps: Sequence[Step]) -> Iterator[tuple[tuple[Step, ...], ...]]:
    """Stage by stage, the steps of each machine in their order."""
    for _, stage in groupby(steps, lambda step: step.stage):
        found: dict[str, list[Step]] = {}
        for step in stage:
            found.setdefault(step.machine, []).append(step)
        yield tuple(map(tuple, found.values()))
