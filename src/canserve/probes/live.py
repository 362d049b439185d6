"""Machines looked at: every one at the same time, and what was read laid over what was said of it before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from canserve.commands.ssh import Route
from canserve.facts import Cause, Evidence, Fact, Known, Missing
from canserve.rules.machines import FIELDS, KIND, PREFIX, kind, profile
from canserve.subjects.cluster import Node
from canserve.subjects.machine import NOT_LOOKED, Machine
from canserve.trees.fanout import fanout
from canserve.units import Bytes

if TYPE_CHECKING:
    from canserve.transport.frames import Section
    from canserve.transport.reach import Limits, Look

LOCAL = "local"
WIDTH = 32
"""Machines looked at at once; how many connections begin at one sshd is bounded by itself."""


@dataclass(frozen=True, slots=True)
class Way:
    """How to look at machines."""

    offline: bool = False
    tell: Callable[[str], None] | None = None
    """Told in a few words what is being done."""
    options: tuple[str, ...] = ()
    """Further words for every call of ``ssh``."""


def look_at(groups: Sequence[Sequence[Node]], way: Way) -> tuple[tuple[Node, ...], ...]:
    """The nodes with what was read on those that have an address. Never raises for what a machine does.

    A group is one cluster file's: ``through`` names another node of the same.
    """
    live = [
        (node, {each.name: each for each in group})
        for group in groups
        for node in group
        if node.address is not None and node.look
    ]
    if live and way.tell is not None:
        way.tell(f"looking at {live[0][0].name}" if len(live) == 1 else f"looking at {len(live)} machines")
    read = fanout(lambda item: _looked(*item, way), live, WIDTH)
    done = {id(node): replace(node, machine=machine) for (node, _), machine in zip(live, read, strict=True)}
    return tuple(tuple(done.get(id(node), node) for node in group) for group in groups)


def _looked(node: Node, nodes: Mapping[str, Node], way: Way) -> Machine:
    from canserve.probes.host.reading import SECTIONS, machine_facts

    assert node.address is not None
    if way.offline and node.address != LOCAL:
        return merged(node.machine, _untold(node.machine.subject))
    look = asked(node, nodes, SECTIONS, way)
    if not look.answers and look.trouble is not None:
        hint = _profile_meant(node.address)
        return merged(node.machine, _all(replace(look.trouble, ask=hint or look.trouble.ask)))
    facts = machine_facts(look)
    # A shell that cannot even say the time lacks what every answer needs: its silence proves nothing absent.
    clock = facts["clock_skew"]
    return merged(node.machine, _all(clock) if isinstance(clock, Missing) else facts)


def routes(nodes: Sequence[Node]) -> dict[str, Route]:
    """The way to every machine that has an address, by its name and by its address; of one name the first wins."""
    named = {node.name: node for node in nodes}
    found: dict[str, Route] = {}
    for node in nodes:
        if node.address is not None and node.address != LOCAL:
            route = Route(node.address, jumps(node, named))
            found.setdefault(node.address, route)
            found.setdefault(node.name, route)
    return found


def asked(
    node: Node, nodes: Mapping[str, Node], sections: Sequence[Section], way: Way, limits: Limits | None = None
) -> Look:
    """One script on one machine, here or over ssh. ``nodes``: those that may lie on the way to it, by name."""
    from canserve.transport.reach import look_here, look_there

    assert node.address is not None
    if node.address == LOCAL:
        return look_here(node.machine.subject, sections, limits)
    route = Route(node.address, jumps(node, nodes), way.options)
    return look_there(node.machine.subject, route, sections, limits)


def jumps(node: Node, nodes: Mapping[str, Node]) -> tuple[str, ...]:
    """The machines on the only way to a node, the nearest first; this machine is none."""
    way: list[str] = []
    via = nodes.get(node.through) if node.through else None
    while via is not None and via.address != LOCAL:
        way.insert(0, via.address or via.name)
        via = nodes.get(via.through) if via.through else None
    return tuple(way)


def _all(why: Missing) -> dict[str, Fact[Any]]:
    return {field.name: why for field in fields(Machine) if field.name != "subject"}


def _untold(subject: str) -> dict[str, Fact[Any]]:
    look = Evidence(subject, "--offline", "not looked at", whole=False)
    return _all(
        Missing(
            Cause.UNREACHED,
            f"{subject} was not looked at: offline",
            (look,),
            _profile_meant(subject) or "look without --offline, or name a profile",
        )
    )


def _profile_meant(name: str) -> str | None:
    """Profiles have a prefix; without it their name is that of a machine."""
    return f"if the profile was meant: {PREFIX}{name}" if profile(name) is not None else None


def merged(described: Machine, read: Mapping[str, Fact[Any]]) -> Machine:
    """What was read wins; what was not is as the file, its profile, or the accelerator's own kind says."""
    name, looked = read.get("gpu"), read.get("accelerators")
    own = kind(name.value) if isinstance(name, Known) else None
    if own is not None and not _as_large(own.memory, read.get("reported_memory")):
        own = None  # sold under one name with more memory or less
    foreign = _of_another_kind(described, read, own)
    facts: dict[str, Fact[Any]] = {}
    for field in fields(Machine):
        if field.name == "subject":
            continue
        here, said = read.get(field.name), getattr(described, field.name)
        # What the look itself says does not hold of this machine is filled by nothing.
        denied = isinstance(here, Missing) and isinstance(looked, Known) and field.name in _OF_ACCELERATORS
        if isinstance(here, Known) or (here is not None and denied):
            facts[field.name] = here
            continue
        if foreign and field.name in KIND and _by_profile(said):
            why = f"{described.subject}: its accelerators are not those of {said.evidence[0].subject}"
            said = Missing(Cause.UNAVAILABLE, why, said.evidence, "correct the profile in the cluster file")
        options = [said]
        if own is not None and field.name in KIND:
            options.append(getattr(own, field.name))
        known = next((fact for fact in options if isinstance(fact, Known)), None)
        facts[field.name] = known or here or _best(options)
    return Machine(described.subject, **facts)


_OF_ACCELERATORS = KIND | {"gpu", "vendor", "capability", "gpus", "reported_memory"}


def _by_profile(fact: Fact[Any]) -> bool:
    return bool(fact.evidence) and fact.evidence[0].subject.startswith(PREFIX)


def _of_another_kind(described: Machine, read: Mapping[str, Fact[Any]], own: Machine | None) -> bool:
    """Whether the profile that the file names is not that of the accelerators which are there."""
    for field in ("vendor", "capability"):
        here, said = read.get(field), getattr(described, field)
        if isinstance(here, Known) and isinstance(said, Known) and here.value != said.value:
            return True
    if _by_profile(described.memory) and not _as_large(described.memory, read.get("reported_memory")):
        return True
    named = described.gpu
    return own is not None and isinstance(named, Known) and _by_profile(named) and named != own.gpu


def _as_large(nominal: Fact[Bytes], reported: Fact[Bytes] | None) -> bool:
    """Whether what is sold so can be what the driver reports; where one of them is not told it can.

    Nominal figures are 0.93 (80 GB of H100) to 1.0 (T4) of what drivers report; another size is far from that.
    """
    if not isinstance(nominal, Known) or not isinstance(reported, Known):
        return True
    return 0.85 * reported.value.count < nominal.value.count < 1.15 * reported.value.count


def _best(options: Sequence[Fact[Any]]) -> Fact[Any]:
    return next((fact for fact in options if fact is not NOT_LOOKED), NOT_LOOKED)


assert set(FIELDS) >= KIND
