"""What is waited for once everything has been started; ``watching`` does it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from canserve.plan.plan import Plan
from canserve.run.executing import Stop
from canserve.run.looking import Question, look_for
from canserve.subjects.cluster import Node
from canserve.subjects.deployment import PROCESS, Deployment, Running, Seen
from canserve.subjects.progress import Outlook


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
    patience: float = 1.0
    """Budgets of phases, and how long nothing may move, times so much."""
    show: Callable[[Outlook], None] = lambda _: None
    """Called with what is known after every look."""
    first_token: bool = True
    """Whether one small request has to be answered too, before it is up."""


def look_at(it: Deployment, nodes: Sequence[Node], lost: Collection[str] = ()) -> tuple[Seen, ...]:
    """One look at every machine of a deployment, but at those that are lost."""
    programs = () if it.program == PROCESS else (it.program,)
    held = tuple(site.name for site in it.sites if site.name not in lost)
    return look_for(nodes, Question(it.state, it.run, programs), held)


def ended(seen: Sequence[Seen]) -> str | None:
    """The first process that is no more; None: all are there, as far as can be seen."""
    found: list[Running] = [one for each in seen for one in each.running if one.alive is False]
    if not found:
        return None
    first = found[0]
    said = f": {first.last}" if first.last else ""
    return f"process {first.process} {first.state}{said}"
