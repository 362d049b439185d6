"""What the journal tells of one ``up``: every attempt with its steps, and what happened between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from canserve.store.journal import Entry, Event, Journal, Kept
from canserve.subjects.progress import WORDS, Stage

PHASE = "phase"
"""Of events: a rank entered a phase of its start."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run."""

    entry: Entry
    steps: tuple[Kept, ...]


@dataclass(frozen=True, slots=True)
class Story:
    """All of it, in order."""

    attempts: tuple[Attempt, ...] = ()
    events: tuple[Event, ...] = ()


def story(run: str, journal: Journal) -> Story:
    """The story that a run belongs to; empty where the journal does not have it."""
    entry = journal.run(run)
    if entry is None:
        return Story()
    name = entry.told.get("story", run)
    entries = [one for one in journal.runs() if one.told.get("story", one.run) == name]
    attempts = tuple(Attempt(one, journal.steps(one.run)) for one in reversed(entries))
    return Story(attempts, journal.events(name))


def phase_events(name: str, run: str, began: datetime, stages: Sequence[Stage]) -> tuple[Event, ...]:
    """Every phase that a rank entered, as events of a story; ``began``: when the watch began."""
    found = [
        (seconds, f"{stage.who} on {stage.machine}: {WORDS.get(phase, phase)}")
        for stage in stages
        for phase, seconds in stage.history
    ]
    return tuple(
        Event(name, run, (began + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%fZ"), PHASE, said)
        for seconds, said in sorted(found)
    )
