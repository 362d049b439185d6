"""What `canserve diagnose --format json` prints; the rules of ``shapes`` hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from canserve.subjects.diagnosis import Diagnosis, Said, State


@dataclass(frozen=True, slots=True)
class SaidShape:
    """A line of a log."""

    line: Annotated[int, "Counted from 1."]
    text: Annotated[str, "Without time, level, process and colours."]
    file: Annotated[str, "Its name in the folder; `-` for a pipe."]
    process: Annotated[str, "As the line names it; empty where it does not."]


@dataclass(frozen=True, slots=True)
class StandingShape:
    """How far one process came."""

    file: str
    process: str
    rank: int | None
    phase: Annotated[str | None, "The furthest phase of a start that it reached."]
    place: Annotated[str | None, "Where its stack stands, from a dump."]
    last: Annotated[SaidShape | None, "The last line that it wrote."]


@dataclass(frozen=True, slots=True)
class DiagnoseShape:
    """Output of `canserve diagnose --format json`."""

    version: Annotated[Literal[1], "Of this format."]
    engine: Annotated[str | None, "As canserve names engines; null: the log does not tell."]
    engine_version: str | None
    phase: Annotated[
        str | None,
        "That the failing process had reached; without a failure, of the process that is least far.",
    ]
    kind: Annotated[str | None, "The kind of failure; null: nothing failed, or it cannot be told."]
    cause: Annotated[SaidShape | None, "The line of the first cause."]
    because: str
    fix: Annotated[str, "Empty where there is nothing to fix, or the kind is not known."]
    next_look: Annotated[tuple[str, ...], "What would tell more."]
    state: State
    name: Annotated[str | None, "The finer name within the kind."]
    processes: tuple[StandingShape, ...]
    consequences: Annotated[tuple[SaidShape, ...], "Lines that only follow from the cause."]
    also: Annotated[tuple[SaidShape, ...], "Other lines that may be causes, in order."]
    source: Annotated[str, "Where the knowledge comes from."]
    lines: Annotated[int, "How many were read."]
    unread: Annotated[tuple[str, ...], "Files that could not be read, and why."]


def diagnosis_output(found: Diagnosis) -> DiagnoseShape:
    """A diagnosis in the form of the JSON output."""
    return DiagnoseShape(
        version=1,
        engine=found.engine,
        engine_version=found.engine_version,
        phase=found.phase,
        kind=found.kind,
        cause=_said(found.cause),
        because=found.because,
        fix=found.fix,
        next_look=found.next_look,
        state=found.state,
        name=found.name,
        processes=tuple(
            StandingShape(each.file, each.process, each.rank, each.phase, each.place, _said(each.last))
            for each in found.standings
        ),
        consequences=tuple(shape for each in found.consequences if (shape := _said(each)) is not None),
        also=tuple(shape for each in found.also if (shape := _said(each)) is not None),
        source=found.source,
        lines=found.lines,
        unread=found.unread,
    )


def _said(line: Said | None) -> SaidShape | None:
    return None if line is None else SaidShape(line.line, line.text, line.file, line.process)
