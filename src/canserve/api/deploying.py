"""``up``: from a plan, or a model, to processes that run, and back where that fails."""

from __future__ import annotations

import getpass
import re
import secrets
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal

from canserve.api import Options, SpecError, promised
from canserve.api.sites import kept, named, real, site, with_addresses
from canserve.api.wished import (
    UpWishes,
    absolute,
    chosen_plan,
    given_to,
    notes_for,
    refuse_secrets,
    where_it_lies,
)
from canserve.facts import Missing
from canserve.plan.steps.starting import endpoint, starting
from canserve.plan.steps.step import Step
from canserve.plan.steps.stopping import stopping
from canserve.run.executing import Failure, Hands, Stop, carry_out, now
from canserve.run.looking import Question, look_for
from canserve.store.journal import Journal
from canserve.subjects.cluster import Node
from canserve.subjects.deployment import PROCESS, Deployment, Image, Running, Seen
from canserve.verdict import No

EVERY = 1.0
"""Seconds between two looks at a deployment that starts."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything that ``up`` will do."""

    deployment: Deployment
    nodes: tuple[Node, ...]
    """Those of the deployment, the head first; then those on the way to them."""
    steps: tuple[Step, ...]
    notes: tuple[str, ...] = ()
    promise: Mapping[str, Any] | None = None
    """What the plan promises of speed, as the journal keeps it for ``verify``."""

    @property
    def machines(self) -> tuple[str, ...]:
        """Names of those that hold something of it, the head first."""
        return tuple(one.name for one in self.deployment.sites)


@dataclass(frozen=True, slots=True)
class UpReport:
    """What has become of it."""

    prepared: Prepared
    state: Literal["up", "starting", "failed", "interrupted"]
    """``up``; ``starting``: not ready in the time given; ``failed``; ``interrupted``."""
    why: str = ""
    hint: str = ""
    seen: tuple[Seen, ...] = ()
    undone: bool = False
    """Whether what had begun was taken away again."""
    left: tuple[Failure, ...] = ()
    """Then: what could not be."""


def prepare(spec: str, wishes: UpWishes, options: Options | None = None) -> Prepared:
    """The steps for a saved plan's first plan, or for the best plan of a model. Runs nothing. Raises SpecError."""
    options = options or Options()
    chosen = chosen_plan(spec, wishes, options)
    if isinstance(chosen.start, Missing):
        raise SpecError(f"the plan has no commands: {chosen.start.why}", chosen.start.ask or "")
    if isinstance(chosen.verdict, No) and not wishes.force:
        raise SpecError(f"the plan says no: {chosen.verdict.because}", chosen.verdict.fix)
    start = chosen.start.value
    refuse_secrets([process.argv for process in start.processes])
    where = where_it_lies(wishes.inside or chosen.build)
    names = tuple(dict.fromkeys(rank.machine for rank in chosen.placement.ranks))
    names = tuple(dict.fromkeys((*names, *(process.host for process in start.processes))))
    container = isinstance(where, Image)
    nodes = real(names, named(wishes.on or names, options, look=container and wishes.accelerators is None))
    ranks = chosen.placement.ranks
    sites = tuple(site(node, ranks, wishes.accelerators, container) for node in nodes[: len(names)])
    when = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    deployment = Deployment(
        run=secrets.token_hex(4),
        model=chosen.model,
        build=wishes.inside or chosen.build,
        engine=chosen.engine,
        where=where,
        sites=sites,
        processes=with_addresses(start.processes, start.placeholders, nodes),
        operator=f"{operator()} {when}",
        given=given_to(chosen.model, where, wishes),
        state=absolute(wishes.state, "the folder of claims"),
    )
    notes = (*start.notes, *notes_for(deployment, wishes))
    return Prepared(deployment, nodes, starting(deployment), notes, promised.kept(chosen))


def operator() -> str:
    """Who asks, and from which machine."""
    name = re.sub(r"[^A-Za-z0-9._-]", "_", getpass.getuser())
    return f"{name}@{re.sub(r'[^A-Za-z0-9._-]', '_', socket.gethostname())}"


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
        one.run, nodes, doing.journal, tell=doing.tell, stop=doing.stop, dead=lambda _: _ended(_look(it))
    )
    failures = carry_out(it.steps, "up", hands)
    if failures:
        why = "; ".join(f"{each.step.machine}: {each.why}" for each in failures)
        return _undone(it, doing, UpReport(it, "failed", why, _hint(failures[0], it)))
    report = _awaited(it, doing)
    if report.state in ("failed", "interrupted"):
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


def _look(it: Prepared, ports: tuple[int, ...] = ()) -> tuple[Seen, ...]:
    one = it.deployment
    programs = () if one.program == PROCESS else (one.program,)
    return look_for(it.nodes, Question(one.state, one.run, programs, ports), it.machines)


def _ended(seen: Sequence[Seen]) -> str | None:
    """The first process that is no more; None: all are there, as far as can be seen."""
    ended: list[Running] = [one for each in seen for one in each.running if one.alive is False]
    if not ended:
        return None
    first = ended[0]
    return (
        f"process {first.process} {first.state}: {first.last}"
        if first.last
        else f"process {first.process} {first.state}"
    )


def _awaited(it: Prepared, doing: Doing) -> UpReport:
    """Looks until it answers requests, something of it has ended, or the time is over."""
    where = endpoint(it.deployment)
    ports = () if where is None else (where[1],)
    end = time.monotonic() + doing.wait
    while True:
        seen = _look(it, ports)
        if doing.stop.asked:  # also while it was looked at: whoever pressed Ctrl-C wants it gone, up or not
            return UpReport(it, "interrupted", "interrupted")
        if (ended := _ended(seen)) is not None:
            machine = next(each.machine for each in seen if any(one.alive is False for one in each.running))
            return UpReport(it, "failed", f"{machine}: {ended}", f"canserve logs {it.deployment.run}", seen)
        if where is not None and any(each.machine == where[0] and each.ports.get(where[1]) for each in seen):
            return UpReport(it, "up", seen=seen)
        if time.monotonic() > end:
            if not doing.wait:
                return UpReport(it, "starting", "it was not waited for", "", seen)
            why = f"nothing answers yet after {doing.wait:.0f} s"
            return UpReport(it, "starting", why, f"canserve status {it.deployment.run}", seen)
        doing.tell("waiting until it answers")
        doing.stop.event.wait(EVERY)


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
