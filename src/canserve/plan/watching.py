"""Whether a start moves, stands or has failed: a state machine over looks. Pure; one line is never a verdict.

A rank *moves* while its log says something new, its progress bar counts, bytes are read, memory of the host or of
the accelerator changes, or a compiler runs. It *stands* where nothing of any rank has moved for ``QUIET`` seconds and
those that are least far have spent the budget of their phase: who is further may be waiting for them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from canserve.plan.budgets import BLIND, BUSY, Budget, Budgets
from canserve.subjects.progress import PENDING, UP, Counters, Outlook, Sample, Stage, Standstill

QUIET = 30.0
"""Seconds without any sign before silence counts; looks are a second or two apart."""
LOST = 90.0
"""Seconds that a machine may not be looked at: then whatever its phase may take is no reason to wait any more."""
TOGETHER = frozenset({"connecting", "met", "capturing"})
"""Phases in which ranks wait for each other by spinning: processors that are busy there show nothing."""
_MEMORY, _READ, _FAULTS = 16 << 20, 4 << 20, 256
"""What has to change since the last sign: less is what an idle process does."""
_BUSY_SHARE = 0.5
"""Of one processor."""


@dataclass(slots=True)
class _Known:
    """Of one process: what the last sign of life was measured against."""

    news: int = 0
    base: Counters | None = None
    last: Counters | None = None
    at: float = 0.0
    lost: float | None = None
    lasting: Mapping[int, str] = field(default_factory=dict)
    """Those below it that are to last, and were there at two looks in a row."""
    recent: frozenset[int] = frozenset()
    """Those at the last look that saw them all."""
    missed: frozenset[int] = frozenset()
    """Of these: not there at the last look."""


class Watch:
    """Fed with looks; knows where every rank is."""

    def __init__(
        self, budgets: Budgets, order: Sequence[str], marked: Collection[str], patience: float = 1.0
    ) -> None:
        """As many phases as ``rules/phases.toml`` has, in ``order``; ``marked`` are those that this engine's log tells.

        ``patience``: every budget, and how long silence may be, times so much.
        """
        self._budgets, self._marked, self._patience = budgets, marked, patience
        self._order = (PENDING, UP, *(phase for phase in order if phase != "stopping"))
        self._place = {phase: number for number, phase in enumerate(self._order)}
        self._stages: dict[tuple[int, int | None], Stage] = {}
        self._known: dict[int, _Known] = {}

    def observe(self, samples: Sequence[Sample], at: float) -> Outlook:
        """What is known after this look, ``at`` seconds into the start."""
        changed: list[Stage] = []
        for sample in samples:
            for stage in self._seen(sample, at):
                before = self._stages.get((stage.process, stage.rank))
                if before is None or before.phase != stage.phase:
                    changed.append(stage)
                self._stages[stage.process, stage.rank] = stage
        stages = tuple(self._stages.values())
        ended = tuple(each for sample in samples if (each := self._dead(sample)) is not None)
        return Outlook(at, stages, tuple(changed), ended, self._standstill(samples, at))

    def reached(self, phase: str, at: float) -> Outlook:
        """The deployment as a whole has come so far, and with it every rank."""
        changed = []
        for key, stage in self._stages.items():
            if stage.rank is not None and self._place[stage.phase] < self._place[phase]:
                history = (*stage.history, (phase, at))
                changed.append(
                    replace(stage, phase=phase, since=at, moved=at, sign="it answered", history=history)
                )
                self._stages[key] = changed[-1]
        return Outlook(at, tuple(self._stages.values()), tuple(changed))

    def _seen(self, sample: Sample, at: float) -> list[Stage]:
        """The ranks of one process, as this look shows them."""
        known = self._known.setdefault(sample.process, _Known(at=at))
        if not sample.seen:
            known.lost = at if known.lost is None else known.lost
            return [self._before(sample, rank, at) for rank in sample.ranks or (None,)]
        known.lost = None
        sign, busy, rate = _moved(known, sample, at)
        known.at = at
        return [
            replace(
                self._further(self._before(sample, rank, at), sample, sign, at),
                rate=rate,
                last=sample.told.last,
                busy=at if busy else self._before(sample, rank, at).busy,
            )
            for rank in sample.ranks or (None,)
        ]

    def _further(self, stage: Stage, sample: Sample, sign: str, at: float) -> Stage:
        """One rank, with what it said of itself. ``sign``: what moved of its process."""
        phases = (*((UP,) if sample.alive else ()), *sample.told.of(stage.rank, self._place))
        new = tuple(phase for phase in phases if self._place[phase] > self._place[stage.phase])
        if new:
            history = (*stage.history, *((phase, at) for phase in new))
            stage, sign = replace(stage, phase=new[-1], since=at, history=history), sign or "another phase"
        count = sample.told.counts.get(stage.rank) or sample.told.counts.get(None)
        if count is not None and count != stage.count:
            stage, sign = replace(stage, count=count), sign or f"{count.done} of {count.total}"
        return replace(stage, moved=at, sign=sign) if sign else stage

    def _before(self, sample: Sample, rank: int | None, at: float) -> Stage:
        first = Stage(sample.process, sample.machine, rank, PENDING, at, at, history=((PENDING, at),))
        return self._stages.get((sample.process, rank), first)

    def _dead(self, sample: Sample) -> Sample | None:
        """A process that is no more, or lives on without one of those that make its ranks; twice looked at."""
        if not sample.seen:
            return None
        if sample.alive is False or sample.lasting is None:
            return sample if sample.alive is False else None
        known = self._known[sample.process]
        gone = frozenset(known.lasting) - frozenset(sample.lasting)
        if died := gone & known.missed:
            number = min(died)
            return replace(sample, alive=False, state=f"lost {known.lasting[number]} (process {number})")
        known.missed = gone
        known.lasting = {**known.lasting, **{n: t for n, t in sample.lasting.items() if n in known.recent}}
        known.recent = frozenset(sample.lasting)
        return None

    def _standstill(self, samples: Sequence[Sample], at: float) -> Standstill | None:
        lost = [since for each in samples if (since := self._known[each.process].lost) is not None]
        if any(at - since < LOST * self._patience for since in lost):
            return None
        quiet = at - max((stage.moved for stage in self._stages.values()), default=at)
        speaking = {sample.process for sample in samples if sample.speaks}
        ranks = [stage for stage in self._stages.values() if stage.process in speaking]
        still = QUIET * self._patience
        if not ranks or quiet < still:
            return None
        if lost:
            over = at - max(lost) - LOST * self._patience
            return Standstill(
                ranks[0].phase, LOST * self._patience, "a machine cannot be looked at", over, quiet
            )
        least = min((stage.phase for stage in ranks), key=lambda phase: self._place[phase])
        behind = [stage for stage in ranks if stage.phase == least]
        budget = self._of(least)
        blind = any(self._known[stage.process].last is None for stage in behind)
        busy = least not in TOGETHER and any(at - stage.busy < still and stage.busy for stage in ranks)
        seconds = budget.seconds * (BUSY if busy else BLIND if blind else 1.0) * self._patience
        over = at - max(stage.since for stage in behind) - seconds
        return Standstill(least, seconds, budget.why, over, quiet) if over >= 0 else None

    def _of(self, phase: str) -> Budget:
        return self._budgets.of(phase, self._marked, self._order)


def _moved(known: _Known, sample: Sample, at: float) -> tuple[str, bool, float | None]:
    """What moved since the last look, whether processors were busy, and how fast was read."""
    now, last = sample.counters, known.last
    sign = "its log grew" if sample.told.news > known.news else ""
    known.news = sample.told.news
    if now is None:
        return sign, False, None
    known.last = now
    if (
        known.base is None or last is None or now.processes < last.processes
    ):  # what ended takes its counts with it
        known.base = now
        return sign, False, None
    counted = _counted(known.base, now)
    if counted:
        known.base = now
    seconds = at - known.at
    busy = seconds > 0 and (now.cpu - last.cpu) / seconds >= _BUSY_SHARE
    rate = None
    if now.read is not None and last.read is not None and seconds > 0:
        rate = max(now.read - last.read, 0) / seconds
    return sign or counted, busy, rate


def _counted(base: Counters, now: Counters) -> str:
    """What the kernel's counters show since the last sign; empty: nothing."""
    signs = (
        ("compilers run", now.builders > 0),
        ("bytes were read", _grown(base.read, now.read) >= _READ),
        ("bytes were written", _grown(base.written, now.written) >= _READ),
        ("accelerator memory changed", abs(_grown(base.accelerator, now.accelerator)) >= _MEMORY),
        ("memory changed", abs(now.memory - base.memory) >= _MEMORY),
        ("pages were read", now.faults - base.faults >= _FAULTS),
    )
    return next((sign for sign, seen in signs if seen), "")


def _grown(before: int | None, now: int | None) -> int:
    return 0 if before is None or now is None else now - before


def marked(markers: Iterable[tuple[str, str]], engine: str) -> frozenset[str]:
    """The phases that an engine's log tells. ``markers``: engine and phase of each; an empty engine: any."""
    found = list(markers)
    return (
        frozenset(phase for of, phase in found if of in ("", engine))
        if engine in dict(found)
        else frozenset()
    )
