"""Deployments as the shapes of the JSON output."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from canserve.api.deploying import UpReport, carry_step
from canserve.api.falling_back import Candidate, Story
from canserve.api.phases import Phases
from canserve.api.preparing import Prepared
from canserve.api.running import DownReport, Found
from canserve.commands import ssh
from canserve.plan.steps.starting import CLAIMING, endpoint
from canserve.plan.steps.step import Step
from canserve.render.figures import layout_name
from canserve.render.progress import ranks_output
from canserve.render.run_shapes import (
    CandidateShape,
    DownShape,
    LeftShape,
    RunningShape,
    RunShape,
    StatusShape,
    StepShape,
    UpShape,
)
from canserve.render.structure import finding_output
from canserve.run.executing import Failure
from canserve.subjects.deployment import Running


def story_output(story: Story, routes: Mapping[str, ssh.Route]) -> UpShape:
    """What has become of all candidates; at its top the last one that was tried."""
    shape = up_output(story.report.prepared, routes, story.report)
    return replace(shape, candidates=tuple(map(_candidate, story.candidates)))


def _candidate(it: Candidate) -> CandidateShape:
    report = it.report
    evidence = None if report is None else report.evidence
    state = "left-over" if it.state == "tried" else it.state
    return CandidateShape(
        number=it.number,
        build=it.plan.build,
        layout=layout_name(it.plan.parallel),
        machines=tuple(dict.fromkeys(rank.machine for rank in it.plan.placement.ranks)),
        state=state if report is None else report.state,
        because=it.why,
        hint=it.hint,
        run=None if report is None else report.prepared.deployment.run,
        kind=None if report is None else report.kind,
        cause=None if report is None else report.name,
        seen=() if report is None else report.told,
        evidence=None if evidence is None else str(evidence.folder),
        not_free=() if report is None else tuple(f"{one.machine}: {one.what}" for one in report.still),
    )


def up_output(prepared: Prepared, routes: Mapping[str, ssh.Route], report: UpReport | None) -> UpShape:
    """What ``up`` would do, or what has become of it."""
    it = prepared.deployment
    where = endpoint(it)
    seen = () if report is None else report.seen
    return UpShape(
        version=1,
        run=it.run,
        model=it.model,
        build=it.build,
        state="dry-run" if report is None else report.state,
        because="" if report is None else report.why,
        hint="" if report is None else report.hint,
        endpoint=None if where is None else f"{where[0]}:{where[1]}",
        steps=steps_output(_whole(prepared), routes),
        processes=tuple(
            running_output(one, ",".join(map(str, it.processes[one.process].ranks)))
            for each in seen
            for one in each.running
            if one.process < len(it.processes)
        ),
        ranks=() if report is None else ranks_output(report.stages),
        fix="" if report is None else report.fix,
        undone=report is not None and report.undone,
        left=() if report is None else _left(report.left),
        notes=prepared.notes,
        findings=tuple(map(finding_output, prepared.findings)),
        candidates=(),
    )


def _whole(it: Prepared) -> Iterator[Step]:
    """Every step, what is brought to machines included, once they are claimed."""
    first = [step for step in it.steps if step.stage == 0 and step.name in CLAIMING]
    yield from first if it.carries else ()
    yield from (carry_step(carry, it.targets) for carry in it.carries)
    yield from (step for step in it.steps if not it.carries or step not in first)
    yield from it.after


def steps_output(steps: Iterable[Step], routes: Mapping[str, ssh.Route]) -> tuple[StepShape, ...]:
    """Steps."""
    return tuple(
        StepShape(
            step.stage, step.name, step.machine, step.process, step.argv,
            line(step, routes.get(step.machine)), step.patience,
        )
        for step in steps
    )  # fmt: skip


def line(step: Step, route: ssh.Route | None) -> str:
    """The step as a line for a shell on the operator's machine."""
    words = shlex.join(step.argv)
    return words if route is None else shlex.join(ssh.by_hand(route, words))


def running_output(one: Running, ranks: str = "", phases: tuple[str, ...] = ()) -> RunningShape:
    """A process."""
    return RunningShape(
        one.process, one.ranks or ranks, one.machine, "container" if one.kind == "container" else "process",
        one.name, one.alive, one.exit, one.state, phases, one.last,
    )  # fmt: skip


def _left(failures: Iterable[Failure]) -> tuple[LeftShape, ...]:
    return tuple(LeftShape(each.step.machine, each.step.name, each.why) for each in failures)


def status_output(found: Sequence[Found], phases: Phases | None = None) -> StatusShape:
    """Deployments. ``phases``: how far their ranks have come, where that was asked."""
    return StatusShape(1, tuple(run_output(one, (phases or {}).get(one.run, {})) for one in found))


def run_output(it: Found, phases: Mapping[int, tuple[str, ...]] | None = None) -> RunShape:
    """A deployment."""
    told = it.told
    where = told.get("endpoint")
    listens = [each.ports.get(where[1]) for each in it.seen if where and each.machine == where[0]]
    ranks = {n: ",".join(map(str, one["ranks"])) for n, one in enumerate(told.get("processes", ()))}
    return RunShape(
        run=it.run,
        model=told.get("model") or None,
        build=told.get("build") or None,
        operator=it.operator,
        state=it.word,
        journal=None if it.entry is None else it.entry.state,
        endpoint=f"{where[0]}:{where[1]}" if where else None,
        listens=listens[0] if listens else None,
        claims=tuple(f"{each.machine}: {claim.name}" for each in it.seen for claim in each.claims),
        processes=tuple(
            running_output(one, ranks.get(one.process, ""), (phases or {}).get(one.process, ()))
            for one in it.running
        ),
        gone=it.gone,
        troubles=tuple(LeftShape(each.machine, "look", each.trouble or "") for each in it.troubles),
    )


def down_output(report: DownReport, routes: Mapping[str, ssh.Route], dry: bool) -> DownShape:
    """What was taken away, or would be."""
    return DownShape(
        1,
        report.run,
        "dry-run" if dry else report.state,
        report.machines,
        steps_output(report.steps, routes),
        _left(report.left),
    )
