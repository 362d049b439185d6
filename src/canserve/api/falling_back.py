"""``up`` with candidates: one after the other, until one serves; what says no is not tried, and no cause twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from canserve.api import Options, SpecError
from canserve.api.deploying import Doing, UpReport, up
from canserve.api.preparing import Prepared, carrying, prepared
from canserve.api.readable import readable
from canserve.api.wished import UpWishes
from canserve.commands import claims
from canserve.facts import Missing
from canserve.plan.plan import Plan
from canserve.plan.repeats import Failed, repeats
from canserve.plan.steps.starting import ports
from canserve.run.executing import now
from canserve.store.journal import Event
from canserve.trees.unwanted import until
from canserve.verdict import No

INTERRUPTED = "interrupted"
State = Literal["refused", "skipped", "tried", "left-over"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """One plan, and what has become of it."""

    number: int
    """From 1, the best first."""
    plan: Plan
    state: State
    """``refused``: it was not started, as it says no; ``skipped``: it would fail as one before; ``left-over``: none was
    needed, or wanted, any more."""
    why: str = ""
    hint: str = ""
    report: UpReport | None = None
    """Of one that was tried."""


@dataclass(frozen=True, slots=True)
class Story:
    """All attempts of one ``up``."""

    candidates: tuple[Candidate, ...]
    report: UpReport
    """Of the last one that was tried."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How candidates are gone through."""

    tries: int = 3
    """So many are started at most."""
    distribute: bool = True
    """Whether what machines lack is brought to them."""


def first(
    plans: Sequence[Plan], wishes: UpWishes, options: Options | None = None, how: Manner | None = None
) -> Prepared:
    """What ``bring_up`` would begin with. Runs nothing. Raises SpecError where no candidate can be started."""
    trying = _Trying(wishes, options or Options(), None, how or Manner())
    for number, plan in enumerate(plans, 1):
        found = trying.ready(number, plan)
        if isinstance(found, Prepared):
            more = len(plans) - number
            note = (
                (f"where it fails, {_candidates(more)} {'follows' if more == 1 else 'follow'}",)
                if more
                else ()
            )
            refused = tuple(
                f"candidate {one.number} ({one.plan.build}) is not started: {one.why}" for one in trying.done
            )
            return replace(found, notes=(*found.notes, *refused, *note))
        trying.done.append(found)
    raise _nothing(trying.done)


def _candidates(count: int) -> str:
    return "another candidate" if count == 1 else f"{count} other candidates"


def bring_up(
    plans: Sequence[Plan],
    wishes: UpWishes,
    doing: Doing,
    options: Options | None = None,
    how: Manner | None = None,
    shown: Prepared | None = None,
) -> Story:
    """Start candidates one after the other until one serves, or none is left to be tried.

    What was ``shown`` of one of them, by ``first``, is what is run of it. Raises SpecError where none can be started, KeyboardInterrupt where it was interrupted before one was.
    """
    trying = _Trying(wishes, options or Options(), doing, how or Manner())
    trying.shown = shown
    for number, plan in enumerate(plans, 1):
        trying.take(number, plan)
    if trying.last is None:
        if doing.stop.asked:
            raise KeyboardInterrupt
        raise _nothing(trying.done)
    return Story(tuple(trying.done), trying.outcome(trying.last))


def _nothing(refused: Sequence[Candidate]) -> SpecError:
    """Why none can be started: what the first says, and of the others that they say no, too."""
    one, more = refused[0], len(refused) - 1
    others = f" (and {_candidates(more)} cannot be started either)" if more else ""
    return SpecError(f"{one.why}{others}", one.hint)


class _Trying:
    """Candidates, gone through."""

    def __init__(self, wishes: UpWishes, options: Options, doing: Doing | None, how: Manner) -> None:
        self.wishes, self.options, self.doing, self.how = wishes, options, doing, how
        self.done: list[Candidate] = []
        self.failed: list[Failed] = []
        self.last: UpReport | None = None
        self.over = ""
        """Why no further one is started; empty: the next is."""
        self.story: str | None = None
        self.unsaid: list[Candidate] = []
        self.shown: Prepared | None = None

    def take(self, number: int, plan: Plan) -> None:
        """The next one."""
        assert self.doing is not None
        if self.doing.stop.asked:
            self.over = INTERRUPTED
        with until(self.doing.stop.event):  # nothing has begun yet: there is nothing to wait for
            found = self.ready(number, plan)
        if self.doing.stop.asked and not self.over:
            self.over = INTERRUPTED
            found = Candidate(number, plan, "left-over", INTERRUPTED)
        if isinstance(found, Candidate):
            self.done.append(found)
            self.say(found)
            return
        self.story = self.story or found.deployment.run
        doing = replace(self.doing, story=self.story)
        for one in self.unsaid:
            self.say(one)
        self.unsaid.clear()
        report = up(found, doing)
        self.last = report
        self.done.append(Candidate(number, plan, "tried", report.why, report.hint, report))
        if report.state in ("failed", "stalled"):
            self.failed.append(failed(number, plan, report))
        self.over = self.ended(report)

    def ready(self, number: int, plan: Plan) -> Prepared | Candidate:
        """It with its steps, or why it is not started."""
        if isinstance(plan.verdict, No) and not self.wishes.force:
            verdict = plan.verdict
            return Candidate(number, plan, "refused", f"the plan says no: {verdict.because}", verdict.fix)
        if isinstance(plan.start, Missing):
            why = f"the plan has no commands: {plan.start.why}"
            return Candidate(number, plan, "refused", why, plan.start.ask or "")
        if self.over:
            return Candidate(number, plan, "left-over", self.over)
        for before in self.failed:
            if (why_not := repeats(before, plan)) is not None:
                return Candidate(number, plan, "skipped", why_not)
        if self.shown is not None and self.shown.plan is plan:
            return self.shown
        try:
            found = prepared(plan, self.wishes, self.options)
            found = carrying(found, self.wishes, self.options) if self.how.distribute else found
            return readable(found, self.wishes, self.options)
        except SpecError as error:
            return Candidate(number, plan, "refused", str(error), error.hint)

    def ended(self, report: UpReport) -> str:
        """Why it ends with this attempt."""
        assert self.doing is not None
        if report.state in ("up", "starting"):
            return "one before it serves" if report.state == "up" else "one before it is starting"
        if report.state == "interrupted" or self.doing.stop.asked:
            return INTERRUPTED
        if self.doing.keep:
            return "what failed before it was left standing"
        if report.left:
            return "not everything of what failed before it could be taken away"
        if stuck := next((one for one in report.still if one.blocks), None):
            return f"{stuck.machine} is not free again: {stuck.what}"
        if len(self.failed) >= self.how.tries:
            return f"{self.how.tries} were tried" if self.how.tries > 1 else "one was tried"
        return ""

    def outcome(self, last: UpReport) -> UpReport:
        """Of all: whoever pressed Ctrl-C while one was taken away kept the others from being tried."""
        if last.state in ("failed", "stalled") and any(one.why == INTERRUPTED for one in self.done):
            return replace(last, state="interrupted", why=f"interrupted, after this: {last.why}")
        return last

    def say(self, it: Candidate) -> None:
        """Into the journal, once there is a story."""
        if self.story is None or self.doing is None:
            self.unsaid.append(it)
            return
        said = f"candidate {it.number}, {it.plan.build}: {it.why}"
        self.doing.journal.tell(Event(self.story, "", now(), it.state, said))


def failed(number: int, plan: Plan, report: UpReport) -> Failed:
    """What is to be remembered of an attempt that failed."""
    one = next(iter(report.failures), None)
    began = one is not None and one.step.name in ("start", "listens", "joined")
    step = None if one is None or began else one.step.name
    port = None
    if one is not None and step == "port-free":
        mine = ports(report.prepared.deployment, one.step.machine)
        port = next((each for each in mine if claims.free(each) == one.step.argv), None)
    return Failed(
        plan, number, report.why, report.kind, report.state == "stalled", step,
        None if one is None else one.step.machine, port,
    )  # fmt: skip
