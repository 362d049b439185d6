"""Deployments as the shapes of the JSON output."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence

from canserve.api.deploying import UpReport
from canserve.api.preparing import Prepared
from canserve.api.running import DownReport, Found
from canserve.commands import ssh
from canserve.plan.steps.starting import endpoint
from canserve.plan.steps.step import Step
from canserve.render.run_shapes import (
    DownShape,
    LeftShape,
    RunningShape,
    RunShape,
    StatusShape,
    StepShape,
    UpShape,
)
from canserve.run.executing import Failure
from canserve.subjects.deployment import Running


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
        steps=steps_output(prepared.steps, routes),
        processes=tuple(
            running_output(one, ",".join(map(str, it.processes[one.process].ranks)))
            for each in seen
            for one in each.running
            if one.process < len(it.processes)
        ),
        undone=report is not None and report.undone,
        left=() if report is None else _left(report.left),
        notes=prepared.notes,
    )


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


def running_output(one: Running, ranks: str = "") -> RunningShape:
    """A process."""
    return RunningShape(
        one.process, one.ranks or ranks, one.machine, "container" if one.kind == "container" else "process",
        one.name, one.alive, one.exit, one.state, one.last,
    )  # fmt: skip


def _left(failures: Iterable[Failure]) -> tuple[LeftShape, ...]:
    return tuple(LeftShape(each.step.machine, each.step.name, each.why) for each in failures)


def status_output(found: Sequence[Found]) -> StatusShape:
    """Deployments."""
    return StatusShape(1, tuple(map(run_output, found)))


def run_output(it: Found) -> RunShape:
    """A deployment."""
    told = {} if it.entry is None else it.entry.told
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
        processes=tuple(running_output(one, ranks.get(one.process, "")) for one in it.running),
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
