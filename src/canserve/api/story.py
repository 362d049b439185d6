"""What the journal tells of one ``up``: every attempt with its steps, and what happened between them."""

from __future__ import annotations

from dataclasses import dataclass

from canserve.store.journal import Entry, Event, Journal, Kept

PHASE = "phase"
"""Of events: a rank entered a phase of its start. ``rank 0 on spark-1: weights, after 40 s``."""


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
