"""``up``: steps carried out until what they start answers, and back where that fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from canserve.api.preparing import Prepared, operator, prepare
from canserve.api.sites import kept
from canserve.api.watching import awaited
from canserve.plan.steps.starting import endpoint
from canserve.plan.steps.stopping import stopping
from canserve.run.awaiting import Awaited, ended, look_at
from canserve.run.executing import Failure, Hands, Stop, carry_out, now
from canserve.store.journal import Journal
from canserve.subjects.deployment import Seen
from canserve.subjects.outcome import State

__all__ = ["Doing", "Prepared", "UpReport", "prepare", "up"]


@dataclass(frozen=True, slots=True)
class UpReport:
    """What has become of it."""

    prepared: Prepared
    state: State
    why: str = ""
    hint: str = ""
    seen: tuple[Seen, ...] = ()
    kind: str | None = None
    """Of the cause, as ``diagnose`` names kinds."""
    name: str | None = None
    """The finer name within the kind."""
    told: tuple[str, ...] = ()
    """What was seen on each rank."""
    undone: bool = False
    """Whether what had begun was taken away again."""
    left: tuple[Failure, ...] = ()
    """Then: what could not be."""


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


def up(it: Prepared, doing: Doing) -> UpReport:
    """Carry out the steps, and wait until it answers. Where that fails, or is interrupted, take it away again."""
    one = it.deployment
    told = {
        "model": one.model, "build": one.build, "engine": one.engine, "program": one.program, "state": one.state,
        "operator": one.operator, "machines": kept(it.nodes), "held": it.machines, "endpoint": endpoint(one),
        "promise": it.promise,
        "processes": [{"host": each.host, "ranks": each.ranks} for each in one.processes],
    }  # fmt: skip
    doing.journal.begin(one.run, now(), told)
    nodes = {node.name: node for node in it.nodes}
    hands = Hands(
        one.run,
        nodes,
        doing.journal,
        tell=doing.tell,
        stop=doing.stop,
        dead=lambda _: ended(look_at(one, it.nodes)),
    )
    failures = carry_out(it.steps, "up", hands)
    if failures:
        why = "; ".join(f"{each.step.machine}: {each.why}" for each in failures)
        return _undone(it, doing, UpReport(it, "failed", why, _hint(failures[0], it)))
    came = awaited(Awaited(one, it.nodes, it.plan, doing.wait, doing.stop, doing.tell))
    report = UpReport(it, came.state, came.why, came.hint, came.seen, came.kind, came.name, came.told)
    if report.state in ("failed", "stalled", "interrupted"):
        return _undone(it, doing, report)
    doing.journal.settle(one.run, "up" if report.state == "up" else "starting", report.why)
    return report


def _hint(failure: Failure, it: Prepared) -> str:
    match failure.step.name:
        case "claim":
            held_by = failure.why.rpartition(": ")[2].split(" ")[0]
            return f"canserve status {held_by} --on {failure.step.machine} shows it, canserve down {held_by} ends it"
        case "image-held":
            return f"load it there first: docker save IMAGE | ssh {failure.step.machine} docker load"
        case "port-free":
            return "end what listens there, or choose another: --engine-arg port=N"
        case "listens" | "joined":
            return f"canserve logs {it.deployment.run} (with --keep, what failed is left standing)"
        case _:
            return ""


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
    hands = Hands(
        one.run, {node.name: node for node in it.nodes}, doing.journal, tell=doing.tell, stop=doing.undoing
    )
    left = list(carry_out(steps, "down", hands, whole=True))
    if doing.undoing.asked:
        left += [
            Failure(step, "not taken away: interrupted", reached=False) for step in steps if step.stage == 0
        ]
    doing.journal.settle(one.run, "left" if left else "failed", report.why, now())
    return replace(report, undone=True, left=tuple(left))
