"""Watches a start until it answers, stands still, has failed, or the time is over; and says which, and why."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from canserve.checks.diagnosis.causes import of_another
from canserve.checks.diagnosis.judge import filled
from canserve.checks.diagnosis.log import Reading
from canserve.checks.diagnosis.stalls import Stall, named
from canserve.checks.diagnosis.standing import VAGUE, Scene, merged, standing
from canserve.plan.budgets import budgets
from canserve.plan.watching import Watch, marked
from canserve.probes.logs.matching import Matcher
from canserve.probes.logs.reading import read_log
from canserve.run.awaiting import Awaited
from canserve.run.first_token import first_token
from canserve.run.watching_look import Eyes, Sight
from canserve.run.watching_sockets import connections
from canserve.run.watching_stacks import stacks
from canserve.subjects.diagnosis import Diagnosis
from canserve.subjects.outcome import Outcome
from canserve.subjects.progress import ANSWERED, READY, WORDS, Outlook, Sample, Stage, Standstill

EVERY = 1.0
"""Seconds between two looks."""
LAST_WORDS = 1.0
"""Seconds that the other ranks have to say why, once one has ended: the first of them to fail is the cause."""
ECHOES = 4
"""Looks that are waited for where all that is said is that a peer is gone."""

Judge = Callable[[Sequence[Reading]], Diagnosis]
"""From logs to the first cause."""


def watch(it: Awaited, matcher: Matcher, judge: Judge) -> Outcome:
    """Look until it is decided. Never raises for what machines do."""
    return _Watching(it, matcher, judge).end()


class _Watching:
    """One watch."""

    def __init__(self, it: Awaited, matcher: Matcher, judge: Judge) -> None:
        self._it, self._matcher, self._judge = it, matcher, judge
        self._eyes = Eyes(it.deployment, it.nodes, matcher, lambda: it.stop.asked, it.patience)
        knowledge = matcher.knowledge
        told = marked(((each.engine, each.phase) for each in knowledge.markers), it.deployment.engine)
        self._watch = Watch(budgets(it.plan), tuple(knowledge.order), told, it.patience)
        self._began = time.monotonic()
        self._outlook = Outlook(0.0, ())

    def end(self) -> Outcome:
        """Until it is decided."""
        it = self._it
        while True:
            sight = self._eyes.look()
            outlook = self._shown(self._watch.observe(sight.samples, self._now()))
            decided = self._decided(sight, outlook)
            if decided is not None:
                last = self._outlook
                return replace(decided, seen=decided.seen or sight.seen, stages=last.stages, seconds=last.at)
            it.stop.event.wait(EVERY)

    def _now(self) -> float:
        return time.monotonic() - self._began

    def _shown(self, outlook: Outlook) -> Outlook:
        self._outlook = outlook
        self._it.show(outlook)
        return outlook

    def _decided(self, sight: Sight, outlook: Outlook) -> Outcome | None:
        """The end of the watch; None: it goes on."""
        it = self._it
        if it.stop.asked:  # also while it was looked at: whoever pressed Ctrl-C wants it gone, up or not
            return Outcome("interrupted", "interrupted")
        if outlook.ended:
            return self._failed(outlook)
        if sight.answers or (sight.answers is None and self._listens(sight)):
            return self._answers()
        if outlook.standstill is not None and it.seconds:
            return self._stalled(sight, outlook, outlook.standstill)
        if outlook.at > it.seconds:
            if not it.seconds:
                return Outcome("starting", "it was not waited for")
            why = f"nothing answers yet after {it.seconds:.0f} s"
            hint = f"canserve status {it.deployment.run}"
            return Outcome("starting", why, hint, told=_told(outlook, outlook.at))
        return None

    def _answers(self) -> Outcome:
        """It is ready; with its first token it is up."""
        it = self._it
        self._shown(self._watch.reached(READY, self._now()))
        if not it.first_token:
            return Outcome("up")
        found = first_token(self._eyes, lambda: it.stop.asked)
        if it.stop.asked:
            return Outcome("interrupted", "interrupted")
        if found.answered is None:
            return Outcome("up", told=(f"no first token was asked for: {found.why}",))
        if found.answered:
            self._shown(self._watch.reached(ANSWERED, self._now()))
            return Outcome("up")
        return self._unanswered(found.why)

    def _unanswered(self, why: str) -> Outcome:
        """Its first request failed: what ended with it, or what its logs say."""
        self._it.stop.event.wait(LAST_WORDS)
        sight = self._eyes.look()
        outlook = self._shown(self._watch.observe(sight.samples, self._now()))
        if outlook.ended:
            return self._failed(outlook)
        found = self._judge([self._reading(one) for one in self._eyes.logs])
        cause = "" if found.cause is None else f": {found.cause.text}"
        return Outcome(
            "failed", f"{why}{cause}", found.fix or f"canserve logs {self._it.deployment.run}", sight.seen,
            found.kind, found.name, _told(outlook, 0.0), found.because if cause else "", found.fix,
        )  # fmt: skip

    def _listens(self, sight: Sight) -> bool:
        """Where nobody there can ask: whether something listens."""
        where = self._eyes.endpoint
        return where is not None and any(
            each.machine == where[0] and bool(each.ports.get(where[2])) for each in sight.seen
        )

    def _failed(self, outlook: Outlook) -> Outcome:
        """A process has ended. What it said itself goes before what others say of it."""
        for _ in range(ECHOES):  # a peer may be seen to end before the one that it lost
            sight = None if self._it.stop.event.wait(LAST_WORDS) else self._eyes.look()
            samples = () if sight is None else sight.samples
            ended = [one for one in samples if one.seen and one.alive is False] or list(outlook.ended)
            first, found = self._first(ended, samples)
            if sight is None or not _echo(found):
                break
        how, _, last = ("failed", "", "") if first.alive else first.state.partition(": ")
        line = last if found.cause is None else found.cause.text
        why = f"{first.machine}: process {first.process} {how}" + (f": {line}" if line else "")
        return Outcome(
            "failed", why, found.fix or f"canserve logs {self._it.deployment.run}",
            () if sight is None else sight.seen, found.kind, found.name, _told(outlook, 0.0),
            "" if found.cause is None else found.because, found.fix,
        )  # fmt: skip

    def _first(self, ended: Sequence[Sample], every: Sequence[Sample]) -> tuple[Sample, Diagnosis]:
        """Whose end the others followed, and its first error: of what was killed from outside, no word of another's."""
        killed = next((one for one in ended if one.killed), None)
        if killed is not None:
            return killed, self._judge([self._reading(killed.process)])
        found = self._cause(ended)
        told = "" if found.cause is None else found.cause.file
        return next((one for one in (*ended, *every) if self._name(one.process) == told), ended[0]), found

    def _cause(self, ended: Sequence[Sample]) -> Diagnosis:
        """The first error of what ended, from its own log; where that tells of a peer alone, of all of them together."""
        own = self._judge([self._reading(sample.process) for sample in ended])
        if own.cause is not None and not _echo(own):
            return own
        every = self._judge([self._reading(one) for one in self._eyes.logs])
        return every if own.cause is None or not (every.cause is None or _echo(every)) else own

    def _name(self, number: int) -> str:
        process = self._it.deployment.processes[number]
        ranks = ",".join(map(str, process.ranks))
        return f"{process.host} rank {ranks}" if ranks else f"{process.host} process {number}"

    def _reading(self, number: int) -> Reading:
        kept = io.BytesIO(self._eyes.logs[number].tracker.kept)
        return read_log(self._name(number), kept, self._matcher)

    def _stalled(self, sight: Sight, outlook: Outlook, still: Standstill) -> Outcome:
        """Named by everything that is seen; nothing moves, so there is time for a closer look."""
        stall = self._stall(sight, outlook, still)
        words = WORDS.get(still.phase, still.phase)
        row = self._matcher.knowledge.stalls.get(stall.name)
        if row is None:
            whose = stall.seen.get("whose", "it")
            because, fix = f"the start stands ({words}), and nothing says what {whose} waits for", ""
        else:
            because, fix = filled(row.because, stall.seen), filled(row.fix, stall.seen)
        why = f"{because} ({words}: nothing moved for {still.quiet:.0f} s, budget {still.budget:.0f} s)"
        return Outcome(
            "stalled", why, fix or f"canserve logs {self._it.deployment.run}", sight.seen,
            row.kind if row else None, stall.name, _told(outlook, outlook.at), because, fix,
        )  # fmt: skip

    def _stall(self, sight: Sight, outlook: Outlook, still: Standstill) -> Stall:
        """From what was said and from connections; where these do not tell, from stacks."""
        if lost := [sample.machine for sample in sight.samples if not sample.seen]:
            return _lost(sight, lost)
        sockets, looked = connections(self._eyes, sight)
        ranks = tuple(stage for stage in outlook.stages if stage.rank is not None)
        facts = merged([sample.told.facts for sample in sight.samples])
        stall = standing(Scene(ranks, still.phase, facts, sockets, looked))
        if stall.name not in VAGUE:
            return stall
        dumps = stacks(self._eyes, self._matcher)
        waiting = [
            each for dump in dumps for each in dump.stacks if each.place is not None and each.place.group
        ]
        if not waiting:
            return stall
        return named(waiting, [*map(self._reading, self._eyes.logs), *dumps])


def _echo(found: Diagnosis) -> bool:
    return found.cause is not None and of_another(found.cause.text)


def _lost(sight: Sight, machines: Sequence[str]) -> Stall:
    said = (each.trouble or each.engine_trouble for each in sight.seen if each.machine in machines)
    why = next((each for each in said if each), "")
    return Stall(
        "machine-lost", {"whose": ", ".join(dict.fromkeys(machines)), "why": f": {why}" if why else ""}
    )


def _told(outlook: Outlook, at: float) -> tuple[str, ...]:
    return tuple(_seen_of(stage, at) for stage in outlook.stages if stage.rank is not None)


def _seen_of(stage: Stage, at: float) -> str:
    """What was seen on a rank: ``rank 1 on b: ranks joining for 92 s, still for 90 s; last: ...``."""
    said = f"{stage.who} on {stage.machine}: {stage.words}"
    if at:
        said += f" for {at - stage.since:.0f} s, still for {at - stage.moved:.0f} s"
    return f"{said}; last: {stage.last[:300]}" if stage.last else said
