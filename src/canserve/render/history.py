"""What the journal tells: every deployment in a line, or one ``up`` from its first step to its last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from canserve.api.story import PHASE, Story
from canserve.render.page import Cell, Look, Page, Row
from canserve.store.journal import Entry


@dataclass(frozen=True, slots=True)
class RunLineShape:
    """A deployment in the journal."""

    run: str
    story: Annotated[str, "Of all attempts of one `up`; named like the first of them."]
    model: str
    build: str
    state: Annotated[str, "In the journal: up, starting, failed, kept, stopping, down, left."]
    because: str
    began: Annotated[str, "UTC, ISO 8601."]
    ended: str | None
    machines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HappenedShape:
    """A step, or something between steps."""

    at: Annotated[str, "UTC, ISO 8601."]
    run: Annotated[str, "Empty: about a candidate that was not started."]
    what: Annotated[
        str, "Of a step its name; else refused, skipped, phase, failed, evidence, cause, not-free ..."
    ]
    kind: Literal["step", "event"]
    machine: str | None
    said: Annotated[str, "Of a step what it printed, once it failed."]
    status: Annotated[int | None, "Exit status of a step; null: none, or it did not end."]
    argv: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HistoryShape:
    """Output of `canserve history --format json`."""

    version: Annotated[Literal[1], "Of this format."]
    runs: Annotated[tuple[RunLineShape, ...], "The latest first; of one story in their order."]
    happened: Annotated[tuple[HappenedShape, ...], "Of one story, in order; empty without a RUN."]


def history_output(entries: Sequence[Entry], story: Story | None = None) -> HistoryShape:
    """All deployments, or one story."""
    if story is None:
        return HistoryShape(1, tuple(map(_run, entries)), ())
    happened = [
        HappenedShape(
            step.began, one.entry.run, step.name, "step", step.machine, step.output, step.status, step.argv
        )
        for one in story.attempts
        for step in one.steps
    ]
    happened += [HappenedShape(e.at, e.run, e.what, "event", None, e.said, None, ()) for e in story.events]
    runs = tuple(_run(one.entry) for one in story.attempts)
    return HistoryShape(1, runs, tuple(sorted(happened, key=lambda one: one.at[:23])))


def _run(it: Entry) -> RunLineShape:
    told = it.told
    return RunLineShape(
        it.run, str(told.get("story", it.run)), str(told.get("model", "")), str(told.get("build", "")), it.state,
        it.why, it.began, it.ended, tuple(map(str, told.get("held", ()))),
    )  # fmt: skip


def history_text(it: HistoryShape, look: Look) -> str:
    """The same as lines."""
    page = Page(look)
    for one in it.runs:
        heading = (Cell(one.began[:19], 21), Cell(one.run, 10, "bold"), Cell(one.state, 10))
        page.add(Row(f"{one.model} with {one.build}", heading))
        if one.because:
            page.add(Row(one.because, indent=4))
    if it.happened:
        page.blank()
    page.add(*(row for one in it.happened for row in _happened(one)))
    if not it.runs:
        page.add(Row("the journal has no deployment"))
    return page.render()


def _happened(one: HappenedShape) -> Iterator[Row]:
    cells = (Cell(one.at[11:19], 10), Cell(one.run, 10), Cell(one.what, 14))
    if one.kind == "event":
        yield Row(one.said, cells, style="" if one.what == PHASE else "bold")
        return
    how = (
        "did not end" if one.status is None else "" if one.status == 0 else f"status {one.status}: {one.said}"
    )
    yield Row(": ".join(filter(None, (one.machine, how))), cells)
