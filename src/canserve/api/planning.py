"""``plan``: candidates of builds and layouts on machines, each with memory, speed, commands and findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING

from canserve import layout
from canserve.api import Options, SpecError, read_model, with_routes
from canserve.api.deployed import enough
from canserve.api.planned_builds import Purpose, judged_again, read_builds
from canserve.api.planned_degrees import asked_for, refuse, refuse_decided
from canserve.checks.asked_degrees import no_towers, whole_encoder
from canserve.facts import Fact, Known, Missing
from canserve.layout.judged import Judged as Rulings
from canserve.memory.device import one_device
from canserve.memory.quantity import Quantity
from canserve.memory.weights.stored import contradictions
from canserve.plan.candidate import Candidate, Judged, Machines
from canserve.plan.choose import MOST_RANKS, ranked, worth_planning
from canserve.plan.evaluate import curve, evaluate
from canserve.plan.plan import Plan, Plans, Variant
from canserve.plan.wishes import BUILD, Wishes
from canserve.subjects import launch
from canserve.subjects.machine import Machine
from canserve.subjects.model import Model
from canserve.subjects.parallel import Device, Illegal
from canserve.trees.tree import Cost
from canserve.verdict import Verdict

if TYPE_CHECKING:
    from canserve.subjects.cluster import Node

MOST_PLANS = 64
"""Plans that are shown; worse ones are counted."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What plans are asked for. ``on``: machines, ``builds``: empty for the newest that suit."""

    on: tuple[str, ...]
    builds: tuple[str, ...] = ()
    gpus: int | None = None
    """Accelerators used of each machine; None: all."""
    wishes: Wishes = field(default_factory=Wishes)
    what_if: tuple[Mapping[str, object], ...] = ()
    """Changes to compare the best plan with: engine options, or ``build``."""


@dataclass(frozen=True, slots=True)
class PlanReport:
    """Plans for one model on these machines."""

    model: Model
    on: str
    """The machines, as the user named them."""
    plans: Plans
    cost: Cost

    @property
    def verdict(self) -> Verdict:
        """That of the best plan."""
        return self.plans.verdict


def plan(model: str, asked: Asked, options: Options | None = None) -> PlanReport:
    """Every layout that is worth it, on every build, best first.

    Raises SpecError for a machine, build or option that is not written as it can be understood; what cannot be
    *read* is an unknown plan that says so.
    """
    options = options or Options()
    machines, nodes = _machines(asked, options)
    refuse_decided(asked.wishes.options)
    subject = read_model(model, options)
    purpose = Purpose(subject, _kinds(nodes), asked.wishes.options, with_routes(options, nodes))
    builds = read_builds(asked.builds, purpose)
    if options.progress is not None:
        options.progress("planning")
    found = [_of_build(subject, judged, machines, asked.wishes) for judged in builds.judged]
    every = {id(plan): it for group in found for plan, it in group.plans}
    plans = ranked([plan for group in found for plan, _ in group.plans], asked.wishes.goal)
    best = every[id(plans[0])] if plans else None
    return PlanReport(
        subject,
        ", ".join(asked.on),
        Plans(
            model=subject.subject,
            goal=asked.wishes.goal,
            plans=plans[:MOST_PLANS],
            illegal=_illegal(found),
            curve=() if best is None else _curve(best, plans[0]),
            what_if=() if best is None else _what_if(best, asked.what_if, purpose),
            notes=(*_notes(subject, plans, machines), *_of_recipe(options)),
            unread=builds.unread,
        ),
        builds.cost,
    )


@dataclass(frozen=True, slots=True)
class _OfBuild:
    """All plans of one build, each with what it was made of; and the layouts that cannot be."""

    plans: tuple[tuple[Plan, Candidate], ...]
    judged: Judged
    illegal: tuple[Illegal, ...]


def _of_build(model: Model, judged: Judged, machines: Machines, wishes: Wishes) -> _OfBuild:
    wishes = asked_for(wishes, judged.wish, sum(host.gpus for host in machines.hosts))
    machines = replace(machines, hosts=enough(machines.hosts, wishes.fixed.least))
    found = layout.layouts(_question(model, judged, machines, wishes))
    made = (
        Candidate(model, judged, machines, each, wishes, found.judged, judged.options)
        for each in worth_planning(found, wishes)
    )
    return _OfBuild(tuple((evaluate(it), it) for it in made), judged, found.illegal)


def _question(model: Model, judged: Judged, machines: Machines, wishes: Wishes) -> layout.Question:
    return layout.Question(
        model,
        machines.hosts,
        judged.engine,
        judged.version,
        judged.build,
        wishes.fixed,
        whole_encoder=whole_encoder(judged.wish),
        towers=not no_towers(judged.wish),
    )


def _illegal(found: Sequence[_OfBuild]) -> tuple[Illegal, ...]:
    """Each once; one that every build forbids in the same words belongs to none of them."""
    owners: dict[Illegal, list[str]] = {}
    for group in found:
        for one in group.illegal:
            owners.setdefault(one, []).append(group.judged.target)
    return tuple(
        replace(one, build=None if len(builds) == len(found) else builds[0]) for one, builds in owners.items()
    )


def _curve(best: Candidate, plan: Plan) -> tuple[tuple[int, Quantity], ...]:
    if isinstance(plan.serving, Missing):
        return ()
    serving = plan.serving.value
    return curve(replace(best, options=plan.options), min(serving.context, int(serving.max_context.value)))


def _what_if(
    best: Candidate, changes: Sequence[Mapping[str, object]], purpose: Purpose
) -> tuple[Variant, ...]:
    """The best plan's layout with each change. Raises SpecError for an option that its build does not know."""
    return tuple(Variant(change, _changed(best, change, purpose)) for change in changes)


def _changed(best: Candidate, change: Mapping[str, object], purpose: Purpose) -> Plan:
    options = {**purpose.engine_options, **{k: v for k, v in change.items() if k != BUILD}}
    refuse(change)
    purpose = replace(purpose, engine_options=options)
    if BUILD in change:
        builds = read_builds((str(change[BUILD]),), purpose)
        if not builds.judged:
            raise SpecError(f"{builds.unread[0].build}: {builds.unread[0].why}", builds.unread[0].ask)
        judged = builds.judged[0]
    else:
        judged = judged_again(best.judged, purpose)
    rulings = Rulings(_question(best.model, judged, best.machines, best.wishes))
    return evaluate(replace(best, judged=judged, rulings=rulings, options=judged.options))


def _of_recipe(options: Options) -> tuple[str, ...]:
    """What of a recipe was not understood, left open, or is decided by the plan."""
    if options.recipe is None:
        return ()
    from canserve.subjects.recipe import remarks

    return tuple(remarks(options.recipe))


def _notes(model: Model, plans: Sequence[Plan], machines: Machines) -> tuple[str, ...]:
    notes = [f"headers and config contradict each other, headers win: {one}" for one in contradictions(model)]
    if len(plans) > MOST_PLANS:
        notes.append(f"{len(plans) - MOST_PLANS} further plans are worse and left out")
    if sum(host.gpus for host in machines.hosts) > MOST_RANKS:
        notes.append(
            f"deployments of more than {MOST_RANKS} accelerators are planned only where --dp names them"
        )
    notes += [why for host in machines.hosts if (why := host.machine.unseen) is not None]
    if bare := [host.name for host in machines.hosts if _bare(host)]:
        what = "nothing is" if any(not _bare(host) for host in machines.hosts) else "a rank is"
        where = "it" if what == "nothing is" else "its processors"
        notes.append(f"{', '.join(bare[:4])}: no accelerator is there, so that {what} placed on {where}")
    guessed = [host.name for host in machines.hosts if not host.stated]
    if guessed:
        notes.append(
            f"{', '.join(guessed[:4])}: how many accelerators there are is not known: --gpus says it, else one is taken, "
            "or of a machine alone as many as are asked for"
        )
    return tuple(notes)


def _machines(asked: Asked, options: Options) -> tuple[Machines, tuple[Node, ...]]:
    """The machines as layouts, commands and memory rules need them. Raises SpecError."""
    from canserve.probes.live import Way
    from canserve.probes.machine import MachineError, read_nodes

    try:
        nodes = read_nodes(asked.on, Way(options.offline, options.progress))
    except MachineError as error:
        raise SpecError(str(error), "canserve machine --list names every profile") from error
    hosts = _placed(tuple(_host(node, asked.gpus) for node in nodes))
    networks = {node.name: _network(node) for node in nodes}
    devices = {node.name: _device(node) for node in nodes}
    return Machines(hosts, networks, devices, {node.name: node for node in nodes}), nodes


def _kinds(nodes: Sequence[Node]) -> tuple[Machine, ...]:
    """One machine of each kind: builds are judged once for those of which the same is known."""
    found: dict[str, Machine] = {}
    for node in nodes:
        facts = (getattr(node.machine, each.name) for each in fields(node.machine) if each.name != "subject")
        known = (fact.value if isinstance(fact, Known) else fact.cause for fact in facts)
        found.setdefault(repr(tuple(known)), node.machine)
    return tuple(found.values())


def _host(node: Node, gpus: int | None) -> layout.Host:
    known = node.machine.gpus
    if gpus is not None:
        if isinstance(known, Known) and known.value < gpus:
            raise SpecError(
                f"{node.name} has {known.value} accelerators, not {gpus}", f"--gpus {known.value}"
            )
        return layout.Host(node.name, node.machine, gpus)
    number = known.value if isinstance(known, Known) else 1
    return layout.Host(node.name, node.machine, number, isinstance(known, Known))


def _bare(host: layout.Host) -> bool:
    return isinstance(host.machine.gpus, Known) and not host.machine.gpus.value


def _placed(hosts: tuple[layout.Host, ...]) -> tuple[layout.Host, ...]:
    """The machines; where none of them has an accelerator, each with room for a rank on its processors."""
    if any(host.gpus for host in hosts):
        return hosts
    return tuple(replace(host, gpus=1) for host in hosts)


def _network(node: Node) -> launch.Host:
    vendor = node.machine.vendor
    name = vendor.value if isinstance(vendor, Known) else None
    return launch.Host(node.name, node.ip, node.interface, name)


def _device(node: Node) -> Fact[Device]:
    found = one_device(node.machine)
    return found if isinstance(found, Missing) else Known(found)
