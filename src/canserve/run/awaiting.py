"""Waits until a deployment answers, something of it has ended, or the time is over."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from canserve.plan.plan import Plan
from canserve.plan.steps.starting import endpoint
from canserve.run.executing import Stop
from canserve.run.looking import Question, look_for
from canserve.subjects.cluster import Node
from canserve.subjects.deployment import PROCESS, Deployment, Running, Seen
from canserve.subjects.outcome import Outcome

EVERY = 1.0
"""Seconds between two looks at a deployment that starts."""


@dataclass(frozen=True, slots=True)
class Awaited:
    """What is waited for, and how."""

    deployment: Deployment
    nodes: tuple[Node, ...]
    """Its machines, the head first; then those on the way to them."""
    plan: Plan
    """What it was made of."""
    seconds: float
    """Until it should be ready; 0: it is not waited for."""
    stop: Stop = field(default_factory=Stop)
    tell: Callable[[str], None] = lambda _: None


def awaited(it: Awaited) -> Outcome:
    """Looks until it answers requests, something of it has ended, or the time is over."""
    one = it.deployment
    where = endpoint(one)
    ports = () if where is None else (where[1],)
    end = time.monotonic() + it.seconds
    while True:
        seen = look_at(one, it.nodes, ports)
        if it.stop.asked:  # also while it was looked at: whoever pressed Ctrl-C wants it gone, up or not
            return Outcome("interrupted", "interrupted")
        if (why := ended(seen)) is not None:
            machine = next(each.machine for each in seen if any(one.alive is False for one in each.running))
            return Outcome("failed", f"{machine}: {why}", f"canserve logs {one.run}", seen)
        if where is not None and any(each.machine == where[0] and each.ports.get(where[1]) for each in seen):
            return Outcome("up", seen=seen)
        if time.monotonic() > end:
            if not it.seconds:
                return Outcome("starting", "it was not waited for", "", seen)
            why = f"nothing answers yet after {it.seconds:.0f} s"
            return Outcome("starting", why, f"canserve status {one.run}", seen)
        it.tell("waiting until it answers")
        it.stop.event.wait(EVERY)


def look_at(it: Deployment, nodes: Sequence[Node], ports: tuple[int, ...] = ()) -> tuple[Seen, ...]:
    """One look at every machine of a deployment."""
    programs = () if it.program == PROCESS else (it.program,)
    held = tuple(site.name for site in it.sites)
    return look_for(nodes, Question(it.state, it.run, programs, ports), held)


def ended(seen: Sequence[Seen]) -> str | None:
    """The first process that is no more; None: all are there, as far as can be seen."""
    found: list[Running] = [one for each in seen for one in each.running if one.alive is False]
    if not found:
        return None
    first = found[0]
    said = f": {first.last}" if first.last else ""
    return f"process {first.process} {first.state}{said}"
