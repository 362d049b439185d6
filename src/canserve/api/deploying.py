"""``up``: steps carried out until what they start answers, and back where that fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from canserve.api.preparing import Prepared, operator, prepare
from canserve.api.sites import kept
from canserve.api.watching import awaited
from canserve.plan.steps.starting import CLAIMING, endpoint
from canserve.plan.steps.step import Step
from canserve.plan.steps.stopping import stopping
from canserve.probes.live import LOCAL
from canserve.run.awaiting import Awaited, ended, look_at
from canserve.run.carrying import Carry, bring
from canserve.run.evidence import Collected, collect
from canserve.run.executing import Failure, Hands, Stop, carry_out, now
from canserve.run.freed import Held, Still, Waiting, in_use, still_held
from canserve.store.journal import Event, Journal
from canserve.subjects.outcome import Outcome
from canserve.subjects.progress import PENDING, Outlook

__all__ = ["Doing", "Prepared", "UpReport", "prepare", "up"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpReport(Outcome):
    """What has become of it, and what was done about that."""

    prepared: Prepared
    failures: tuple[Failure, ...] = ()
    """Steps that failed; empty: none did."""
    evidence: Collected | None = None
    """What was kept of it, before it was taken away."""
    undone: bool = False
    """Whether what had begun was taken away again."""
    left: tuple[Failure, ...] = ()
    """Then: what could not be."""
    still: tuple[Still, ...] = ()
    """Then: what is not free again."""


@dataclass(frozen=True, slots=True)
class Doing:
    """How ``up`` is carried out."""

    journal: Journal
    wait: float = 600.0
    """Seconds until it should be ready; 0: it is not waited for."""
    keep: bool = False
    """Whether what failed is left standing."""
    stop: Stop = field(default_factory=Stop)
    undoing: Stop = field(default_factory=Stop)
    """Ends taking away, too."""
    tell: Callable[[str], None] = lambda _: None
    show: Callable[[Outlook], None] = lambda _: None
    """Called with every look at a start."""
    patience: float = 1.0
    """How long nothing may move, times so much."""
    first_token: bool = True
    """Whether one small request has to be answered too, before it is up."""
    story: str | None = None
    """Of which it is one attempt, in the journal; None: of its own."""

    def hands(self, it: Prepared, stop: Stop) -> Hands:
        """With what its steps are carried out."""
        one = it.deployment
        nodes = {node.name: node for node in it.nodes}
        return Hands(one.run, nodes, self.journal, tell=self.tell, stop=stop)

    def say(self, it: Prepared, what: str, *said: str) -> None:
        """A line of the story, or several of one moment."""
        run, when = it.deployment.run, now()
        self.journal.tell(*(Event(self.story or run, run, when, what, each) for each in said))


def up(it: Prepared, doing: Doing) -> UpReport:
    """Carry out the steps, and wait until it answers. Where that fails, or is interrupted, take it away again."""
    one = it.deployment
    told = {
        "model": one.model, "build": one.build, "engine": one.engine, "program": one.program, "state": one.state,
        "operator": one.operator, "machines": kept(it.nodes), "held": it.machines, "endpoint": endpoint(one),
        "promise": one.promise, "story": doing.story or one.run,
        "processes": [{"host": each.host, "ranks": each.ranks} for each in one.processes],
    }  # fmt: skip
    doing.journal.begin(one.run, now(), told)
    before = in_use(one, it.nodes)
    with ExitStack() as undoing:  # also where this program itself is at fault
        undoing.callback(_undone, it, doing, UpReport("failed", "canserve itself failed", prepared=it))
        report = _started(it, doing)
        undoing.pop_all()
    if report.state in ("failed", "stalled", "interrupted"):
        return _ended(it, doing, report, before)
    doing.journal.settle(one.run, report.state, report.why)
    doing.say(it, report.state, report.why)
    return report


def _started(it: Prepared, doing: Doing) -> UpReport:
    """Every step, and the wait after them."""
    one = it.deployment
    hands = replace(doing.hands(it, doing.stop), dead=lambda _: ended(look_at(one, it.nodes)))
    first, rest = list[Step](), list[Step]()
    for step in it.steps:
        (first if step.stage == 0 and step.name in CLAIMING else rest).append(step)
    failures = carry_out(first, "up", hands)
    for carry in () if failures else it.carries:
        if not doing.stop.asked and (failed := _brought(carry, it, doing)) is not None:
            failures = (failed,)
            break
    failures = failures or carry_out(rest, "up", hands)
    if doing.stop.asked and not any(failure.reached for failure in failures):
        return UpReport("interrupted", "interrupted", prepared=it)
    if failures:
        why = "; ".join(f"{each.step.machine}: {each.why}" for each in failures)
        return UpReport("failed", why, _hint(failures[0], it), prepared=it, failures=failures)
    watching = Awaited(
        one, it.nodes, it.plan, doing.wait, doing.stop, doing.patience,
        lambda outlook: _shown(it, doing, outlook), doing.first_token,
    )  # fmt: skip
    came = awaited(watching)
    unset = carry_out(it.after, "up", hands) if came.state == "up" else ()
    told = (*came.told, *(f"{each.step.machine}: {each.why}" for each in unset))
    return UpReport(
        came.state, came.why, came.hint, came.seen, came.kind, came.name, told, came.because, came.fix,
        came.stages, came.seconds, prepared=it,
    )  # fmt: skip


def _shown(it: Prepared, doing: Doing, outlook: Outlook) -> None:
    """To whoever watches, and every phase into the journal."""
    doing.show(outlook)
    told = [
        f"{stage.who} on {stage.machine}: {stage.words}, after {outlook.at:.0f} s"
        for stage in outlook.changed
        if stage.rank is not None and stage.phase != PENDING
    ]
    doing.say(it, "phase", *told)


def carry_step(it: Carry, targets: Sequence[str]) -> Step:
    """It as a step, as it is printed and kept."""
    return Step("carry", LOCAL, it.argv(targets), 0, f"it could not be brought: {it.said}")


def _brought(carry: Carry, it: Prepared, doing: Doing) -> Failure | None:
    step, run = carry_step(carry, it.targets), it.deployment.run
    doing.tell(f"bringing {carry.said}")
    number = doing.journal.step(run, "up", step, now())
    done = bring(carry, it.nodes, doing.stop, doing.tell)
    doing.journal.stepped(number, now(), 0 if done.problem is None else 1, done.said)
    if done.problem is None:
        return None
    return Failure(replace(step, machine=done.machine), done.problem, reached=not doing.stop.asked)


def _hint(failure: Failure, it: Prepared) -> str:
    match failure.step.name:
        case "claim":
            held_by = failure.why.rpartition(": ")[2].split(" ")[0]
            return f"canserve status {held_by} --on {failure.step.machine} shows it, canserve down {held_by} ends it"
        case "image-held":
            return f"load it there first: docker save IMAGE | ssh {failure.step.machine} docker load"
        case "carry":
            return "what was copied stays: the next attempt goes on from there"
        case "port-free":
            return "end what listens there, or choose another: --engine-arg port=N"
        case "listens" | "joined":
            return f"canserve logs {it.deployment.run} (with --keep, what failed is left standing)"
        case _:
            return ""


def _ended(it: Prepared, doing: Doing, report: UpReport, before: Mapping[str, Held]) -> UpReport:
    """What it leaves is kept, it is taken away, and what it held is looked at."""
    one = it.deployment
    doing.say(it, report.state, report.why)
    began = any(step.name == "start" for step in doing.journal.steps(one.run))
    if began and report.state != "interrupted":
        report = _explained(it, doing, report)
    report = _undone(it, doing, report)
    if began and report.undone and report.state != "interrupted":
        lost = {failure.step.machine: failure.why for failure in report.left if not failure.reached}
        how = Waiting(doing.undoing, doing.tell, lost=lost)
        found = still_held(one, it.nodes, before, how)
        for still in found:
            doing.say(it, "not-free", f"{still.machine}: {still.what}")
        report = replace(report, still=found)
    return report


def _explained(it: Prepared, doing: Doing, report: UpReport) -> UpReport:
    """With what was kept of it, and what that comes down to."""
    from canserve.api.diagnosing import diagnose

    found = collect(it.deployment, it.nodes, doing.journal.path.parent, doing.tell)
    if found is None:
        return report
    doing.say(it, "evidence", str(found.folder))
    if report.kind is None:
        cause = diagnose(found.logs)
        if cause.kind is not None and cause.state in ("failed", "stalled"):
            hint = cause.fix or report.hint
            report = replace(report, kind=cause.kind, name=cause.name, hint=hint)
            report = replace(report, told=(*report.told, cause.because) if cause.because else report.told)
    if report.kind is not None:
        said = ": ".join(filter(None, (report.kind, report.name or "", *report.told[-1:])))
        doing.say(it, "cause", said)
    if report.hint.startswith("canserve logs") and not doing.keep:  # there are none any more
        report = replace(report, hint=f"canserve diagnose {found.logs}")
    return replace(report, evidence=found)


def _undone(it: Prepared, doing: Doing, report: UpReport) -> UpReport:
    """Take away what had begun, and nothing else."""
    one = it.deployment
    if doing.keep:
        doing.journal.settle(one.run, "kept", report.why, now())
        return report
    doing.tell("taking away what was started")
    doing.journal.settle(one.run, "stopping", report.why)
    line = f"{operator()} {datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} down {one.run}: {report.state}"
    steps = stopping(one.run, it.machines, one.program, one.state, line)
    left = list(carry_out(steps, "down", doing.hands(it, doing.undoing), whole=True))
    if doing.undoing.asked:
        left += [
            Failure(step, "not taken away: interrupted", reached=False) for step in steps if step.stage == 0
        ]
    doing.journal.settle(one.run, "left" if left else "failed", report.why, now())
    return replace(report, undone=True, left=tuple(left))
