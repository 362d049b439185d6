"""All of it together: state, phase, cause, what follows from it, what to look at next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from string import Formatter

from canserve.checks.diagnosis.causes import READY, Found, Verdict, first_cause, is_fragment, ready_line
from canserve.checks.diagnosis.log import Process, Reading
from canserve.checks.diagnosis.stalls import Stall, stalled
from canserve.rules.failures import Knowledge, Signature, StallWords
from canserve.subjects.diagnosis import Diagnosis, Said, Standing, State

MAX_TEXT = 2000
OPENED = "traceback-opened"
"""The row of lines after which a traceback follows."""
_MANY = 20
_ASK_STACKS = "a stack of every rank while it stands: py-spy dump --pid PID"
_ASK_LOGS = "the logs of all ranks together: canserve diagnose FOLDER"


def diagnose(readings: Sequence[Reading], knowledge: Knowledge) -> Diagnosis:
    """What these files of one deployment come down to."""
    order = knowledge.order
    verdict = first_cause(readings, lambda phase: order[phase])
    judged = _judged(readings, verdict, knowledge.stalls)
    engine = _engine(readings)
    return Diagnosis(
        state=judged.state,
        engine=engine,
        engine_version=_first(readings, "version"),
        phase=_phase(readings, verdict.cause, order),
        kind=judged.kind,
        name=judged.name,
        cause=judged.cause,
        because=judged.because,
        fix=judged.fix,
        next_look=judged.look,
        standings=tuple(_standings(readings, order)),
        consequences=tuple(said(each) for each in verdict.consequences[:_MANY]),
        also=tuple(said(each) for each in verdict.others[:_MANY]),
        source=judged.source,
        lines=sum(reading.lines for reading in readings),
        unread=tuple(f"{each.name}: {each.problem}" for each in readings if each.problem),
    )


class _Judged:
    """The answer's core."""

    def __init__(
        self, state: State, because: str, look: Sequence[str] = (), cause: Said | None = None
    ) -> None:
        self.state: State = state
        self.because = because
        self.look = tuple(look)
        self.cause = cause
        self.kind: str | None = None
        self.name: str | None = None
        self.fix = ""
        self.source = ""

    def known(self, row: Signature, groups: Mapping[str, str]) -> _Judged:
        self.kind, self.name, self.source = row.kind or None, row.name, row.source
        self.because, self.fix = filled(row.because, groups), filled(row.fix, groups)
        self.look = row.look or self.look
        return self


def _judged(readings: Sequence[Reading], verdict: Verdict, words: Mapping[str, StallWords]) -> _Judged:
    stall = stalled(readings) if not any(map(ready_line, readings)) else None
    cause = verdict.cause
    if cause is not None and (cause.role == "cause" or stall is None):
        return _failed(cause, _looks(verdict))
    if stall is not None:
        return _stands(stall, words[stall.name], cause)
    if _ready(readings):
        return _Judged("serving", "the server is ready; nothing after that failed", ["canserve verify URL"])
    if verdict.consequences:
        return _only_consequences(verdict, is_fragment(readings, verdict.consequences))
    if verdict.remarks and is_fragment(readings, verdict.remarks):
        row = verdict.remarks[-1]
        assert row.event.signature is not None
        judged = _Judged("unknown", "", [_ASK_LOGS, _ASK_STACKS], said(row))
        judged.known(row.event.signature, row.event.groups)
        judged.because += "; this line alone proves nothing"
        return judged
    return _unfinished(readings, verdict)


def _unended(readings: Sequence[Reading]) -> tuple[str, ...]:
    """Ranks whose collective library began its set-up and did not say that it ended."""
    begun, ended = (
        {rank for each in readings for rank in each.facts.get(fact, ())} for fact in ("begun", "ended")
    )
    waiting = sorted(begun - ended, key=int)[:16]
    if not waiting:
        return ()
    return (
        f"NCCL began its set-up on rank {', '.join(waiting)} and did not end it: test the links of these",
    )


def _looks(verdict: Verdict) -> tuple[str, ...]:
    """What lines that prove nothing say would tell more."""
    rows = [each.event.signature for each in verdict.remarks if each.event.signature is not None]
    return tuple(dict.fromkeys(text for row in rows for text in row.look))


def _failed(cause: Found, looks: Sequence[str]) -> _Judged:
    event = cause.event
    judged = _Judged("failed", "", [_ASK_LOGS], said(cause))
    if event.signature is not None:
        return judged.known(event.signature, event.groups)
    if event.area is not None:
        judged.kind, judged.source = event.area.kind, event.area.source
        judged.because, judged.fix = event.area.because, event.area.fix
        judged.look = (f"where it was raised: {event.raised_at}",)
        return judged
    judged.because = "an error that no rule knows"
    judged.look = (
        *([f"where it was raised: {event.raised_at}"] if event.raised_at else []),
        "the engine's issue tracker, with this line",
        _ASK_LOGS,
        *looks,
    )
    return judged


def _stands(stall: Stall, row: StallWords, cause: Found | None) -> _Judged:
    look = [filled(text, stall.seen) for text in row.look]
    judged = _Judged("stalled", filled(row.because, stall.seen), look, said(cause) if cause else None)
    judged.kind, judged.name, judged.source = row.kind, row.name, row.source
    judged.fix = filled(row.fix, stall.seen)
    return judged


def _only_consequences(verdict: Verdict, fragment: bool) -> _Judged:
    rows = [each for each in verdict.consequences if each.event.signature is not None]
    if not fragment and all(each.event.signature and each.event.signature.name == OPENED for each in rows):
        why = "it failed; the log is cut before the traceback ends, and so holds no cause"
        return _Judged("failed", why, ["the lines after this one", _ASK_LOGS])
    row = next(iter(rows), None)
    judged = _Judged("failed", "the log holds only what followed from the failure", [_ASK_LOGS])
    if row is not None and row.event.signature is not None:
        judged.known(row.event.signature, {})
    return judged


def _unfinished(readings: Sequence[Reading], verdict: Verdict) -> _Judged:
    look = (*_unended(readings), *_looks(verdict))
    phases = [
        phase for each in readings for process in each.processes.values() for phase, _ in process.phases
    ]
    if "stopping" in phases:
        return _Judged("stopped", "it was stopped before it was ready, without an error", [_ASK_LOGS, *look])
    if phases:
        why = "the start has not ended, and nothing in it failed: it is still starting, or the log is cut"
        return _Judged("starting", why, [_ASK_LOGS, _ASK_STACKS, *look])
    places = [
        stack.place.says
        for each in readings
        for stack in each.stacks
        if stack.place and not stack.place.parent
    ]
    if places:
        where = "; ".join(dict.fromkeys(places))
        why = f"a process {where}; for how long cannot be told from that alone"
        return _Judged("starting", why, [_ASK_LOGS, "a second dump, a minute later"])
    return _Judged("unknown", "nothing in it is known: no phase of a start and no failure", [_ASK_LOGS])


def _ready(readings: Sequence[Reading]) -> bool:
    return any(ready_line(reading) for reading in readings)


def _engine(readings: Sequence[Reading]) -> str | None:
    seen: dict[str, int] = {}
    for reading in readings:
        for engine, count in reading.engines.items():
            seen[engine] = seen.get(engine, 0) + count
    seen.pop("", None)
    return max(seen, key=lambda engine: seen[engine]) if seen else None


def _first(readings: Sequence[Reading], fact: str) -> str | None:
    return next((value for each in readings for value in each.facts.get(fact, ())), None)


def _phase(readings: Sequence[Reading], cause: Found | None, ranks: Mapping[str, int]) -> str | None:
    if cause is not None:
        of_cause = cause.reading.processes
        own = of_cause.get(cause.event.line.who)
        return (furthest([own], ranks) if own is not None else None) or furthest(of_cause.values(), ranks)
    each_file = [
        phase for each in readings if (phase := furthest(each.processes.values(), ranks)) is not None
    ]
    least = max if any(phase in READY for phase in each_file) else min
    return least(each_file, key=lambda phase: ranks.get(phase, 0), default=None)


def furthest(processes: Iterable[Process], ranks: Mapping[str, int]) -> str | None:
    """The furthest phase of a start that one of them reached; being stopped is none."""
    phases = [phase for each in processes for phase, _ in each.phases if phase != "stopping"]
    return max(phases, key=lambda phase: ranks.get(phase, 0), default=None)


def _standings(readings: Sequence[Reading], ranks: Mapping[str, int]) -> list[Standing]:
    found = []
    for reading in readings:
        for process in reading.processes.values():
            if not process.phases and process.rank is None:
                continue
            last = process.last
            shown = Said(reading.name, last.number, last.text[:MAX_TEXT], process.name) if last else None
            phase = furthest([process], ranks)
            found.append(Standing(reading.name, process.name, process.rank, phase, None, shown))
        for stack in reading.stacks:
            if stack.place is not None and not stack.place.parent:
                title = f"{stack.host} {stack.title}".strip()[:120]
                found.append(Standing(reading.name, title, None, None, stack.place.says, None))
    return found[:200]


def said(found: Found) -> Said:
    """The line as output shows it."""
    line = found.event.line
    return Said(found.reading.name, line.number, line.text[:MAX_TEXT], line.process)


def filled(text: str, groups: Mapping[str, str]) -> str:
    """A row's words with what the pattern captured; ``{fits|what fits}`` says what stands there without it."""
    names = {name for _, name, _, _ in Formatter().parse(text) if name}
    values = {
        name: groups.get(name.partition("|")[0], name.partition("|")[2] or "it")[:200] for name in names
    }
    return text.format_map(values) if names else text
