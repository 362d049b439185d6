"""From a plan to a deployment and its steps: nothing here changes anything."""

from __future__ import annotations

import getpass
import re
import secrets
import socket
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from canserve.api import Options, SpecError, promised
from canserve.api.sites import named, real, site, with_addresses
from canserve.api.wished import (
    UpWishes,
    absolute,
    chosen_plan,
    given_to,
    notes_for,
    restart_policy,
    startable,
)
from canserve.plan.plan import Plan
from canserve.plan.steps.starting import kept_up, starting
from canserve.plan.steps.step import Step
from canserve.run.carrying import Carry, lacking
from canserve.run.transfer import WantedError
from canserve.subjects.cluster import Node
from canserve.subjects.deployment import Deployment
from canserve.verdict import Finding


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything that ``up`` will do."""

    deployment: Deployment
    nodes: tuple[Node, ...]
    """Those of the deployment, the head first; then those on the way to them."""
    steps: tuple[Step, ...]
    plan: Plan
    """What it was made of."""
    notes: tuple[str, ...] = ()
    carries: tuple[Carry, ...] = ()
    """What is brought to machines that lack it, once they are claimed."""
    targets: tuple[str, ...] = ()
    """The machines as the user names them."""
    after: tuple[Step, ...] = ()
    """Once it serves."""
    findings: tuple[Finding, ...] = ()
    """What was judged of its machines before anything is started."""

    @property
    def machines(self) -> tuple[str, ...]:
        """Names of those that hold something of it, the head first."""
        return tuple(one.name for one in self.deployment.sites)


def prepare(spec: str, wishes: UpWishes, options: Options | None = None) -> Prepared:
    """The steps for a saved plan's first plan, or for the best plan of a model. Runs nothing. Raises SpecError."""
    options = options or Options()
    return prepared(chosen_plan(spec, wishes, options), wishes, options)


def prepared(chosen: Plan, wishes: UpWishes, options: Options) -> Prepared:
    """The steps for a plan. Runs nothing. Raises SpecError where it cannot be put into service."""
    found = startable(chosen, wishes)
    start, where, names = found.start, found.where, found.machines
    look = found.contained and wishes.accelerators is None
    nodes = real(names, named(wishes.on or names, options, look=look))
    ranks = chosen.placement.ranks
    sites = tuple(site(node, ranks, wishes.accelerators, found.contained) for node in nodes[: len(names)])
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
        promise=promised.kept(chosen),
    )
    notes = (*start.notes, *notes_for(deployment, wishes))
    policy = restart_policy(where, wishes)
    return Prepared(
        deployment=deployment,
        nodes=nodes,
        steps=starting(deployment),
        plan=chosen,
        notes=notes,
        targets=tuple(wishes.on or names),
        after=() if policy is None else kept_up(deployment, policy),
    )


def carrying(it: Prepared, wishes: UpWishes, options: Options) -> Prepared:
    """The same with what is to be brought to machines that lack it. They are only looked at. Raises SpecError."""
    cache = None if wishes.hub_cache is None else absolute(wishes.hub_cache, "the Hub cache")
    try:
        found = lacking(it.deployment, it.nodes, cache, options.progress or (lambda _: None))
    except WantedError as error:
        raise SpecError(str(error)) from None
    return replace(it, carries=found)


def operator() -> str:
    """Who asks, and from which machine."""
    name = re.sub(r"[^A-Za-z0-9._-]", "_", getpass.getuser())
    return f"{name}@{re.sub(r'[^A-Za-z0-9._-]', '_', socket.gethostname())}"
