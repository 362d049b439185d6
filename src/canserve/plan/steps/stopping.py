"""The inverse: steps that take away what a deployment made, and nothing else, known by nothing but its name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from canserve.commands import claims, removal
from canserve.plan.steps.step import Step
from canserve.subjects.deployment import PROCESS


def stopping(run: str, machines: Sequence[str], program: str, state: str, line: str) -> tuple[Step, ...]:
    """Steps for all machines, the head first: it serves, and the others then have nobody to wait for.

    ``program``: what holds the processes. ``line``: for the audit. Every step succeeds where nothing is left.
    """
    return (
        *(
            step
            for n, machine in enumerate(machines)
            for step in _ended(run, machine, program, state, min(n, 1))
        ),
        *(step for machine in machines for step in _released(run, machine, state, line)),
    )


def _ended(run: str, machine: str, program: str, state: str, stage: int) -> Iterator[Step]:
    seconds = removal.GRACE + 40.0
    if program == PROCESS:
        argv = removal.processes(state, run)
        yield Step("end", machine, argv, stage, "not every process could be ended", seconds=seconds)
        return
    argv = removal.containers(program, run)
    yield Step("end", machine, argv, stage, "not every container could be removed", seconds=seconds)
    argv = removal.volumes(program, run)
    yield Step("volumes", machine, argv, stage, "not every volume could be removed")


def _released(run: str, machine: str, state: str, line: str) -> Iterator[Step]:
    yield Step("release", machine, removal.release(state, run), 2, f"claims in {state} could not be removed")
    yield Step("audit", machine, claims.note(state, line), 2, f"{state} cannot be written")
