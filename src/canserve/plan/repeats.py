"""Whether another candidate would fail as one before it did: by the cause, and what of a plan that cause hangs on."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from canserve.engines.listening import listens
from canserve.facts import Known
from canserve.plan.plan import Plan

Hangs = Literal["build", "memory", "layout", "network"]
_KINDS: Mapping[str, Hangs] = {
    "architecture-not-in-registry": "build",
    "driver-cuda-libc-cpu": "build",
    "gpu-code-arch": "build",
    "image-probing-and-logs": "build",
    "quantisation-vs-gpu": "build",
    "served-but-wrong": "build",
    "tokenizer-template-parser": "build",
    "weights": "build",
    "memory": "memory",
    "parallel-layout": "layout",
    "multi-node-and-collectives": "network",
}
"""What a cause hangs on, by the kinds of ``diagnose``."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A candidate that was tried, and what became of it."""

    plan: Plan
    number: int
    """Among the candidates, from 1."""
    why: str
    kind: str | None = None
    """Of the cause; None: it is not known."""
    stalled: bool = False
    step: str | None = None
    """The step that failed; None: all steps succeeded, what they started did not."""
    machine: str | None = None
    """Where that was."""
    port: int | None = None
    """That was taken."""


def repeats(failed: Failed, plan: Plan) -> str | None:
    """Why this plan would fail likewise, in one line; None: nothing says that it would."""
    before = f"candidate {failed.number}"
    if failed.step is not None:
        shared = _same_step(failed, failed.step, plan)
        return f"as {before}: {failed.why}" if shared else None
    same = failed.plan.build == plan.build
    match _hangs(failed):
        case "build" if same:
            return f"the same build as {before}: {failed.why}"
        case "memory" if same and _ranks(plan) <= _ranks(failed.plan) and _no_smaller(failed.plan, plan):
            return f"the same build as {before} on no more accelerators: {failed.why}"
        case "layout" if failed.plan.engine == plan.engine and failed.plan.parallel == plan.parallel:
            return f"the same layout as {before}: {failed.why}"
        case "network" if same and len(machines(plan)) > 1:
            return f"the same build over several machines as {before}: {failed.why}"
        case None if same and failed.plan.parallel == plan.parallel:
            return f"the same build on the same layout as {before}: {failed.why}"
        case _:
            return None


def _hangs(failed: Failed) -> Hangs | None:
    found = _KINDS.get(failed.kind or "")
    if found == "network" and len(machines(failed.plan)) < 2:
        return None  # ranks of one machine did not find each other: over several it may be otherwise
    if failed.kind is None and failed.stalled and len(machines(failed.plan)) > 1:
        return "network"
    return found


def _same_step(failed: Failed, step: str, plan: Plan) -> bool:
    """What is there before anything of the engine runs: machines, ports, files."""
    if failed.machine not in machines(plan):
        return False
    match step:
        case "port-free":
            return failed.port is not None and failed.port in _ports(plan, failed.machine)
        case "image-held" | "program-held" | "carry":
            return plan.build == failed.plan.build
        case "claim" | "place" | "audit" | "secrets":
            return True
        case _:
            return plan.build == failed.plan.build and plan.parallel == failed.plan.parallel


def machines(plan: Plan) -> Collection[str]:
    """Those that a plan uses."""
    started = plan.start.value.processes if isinstance(plan.start, Known) else ()
    return {rank.machine for rank in plan.placement.ranks} | {process.host for process in started}


def _ports(plan: Plan, machine: str | None) -> Collection[int]:
    started = plan.start.value.processes if isinstance(plan.start, Known) else ()
    return {port for one in started if one.host == machine for port in listens(plan.engine, one.argv).all}


def _ranks(plan: Plan) -> int:
    return len(plan.placement.ranks)


def _no_smaller(one: Plan, other: Plan) -> bool:
    """Whether the other asks for as much: a shorter context, or a smaller share, may fit where the first did not."""
    return one.options == other.options
