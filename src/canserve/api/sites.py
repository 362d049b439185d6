"""Real machines behind a plan, or behind a run of the journal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from canserve.api import Options, SpecError
from canserve.facts import Known
from canserve.probes.live import Way
from canserve.probes.machine import ADDRESS, SUFFIX, MachineError, read_cluster, read_nodes
from canserve.rules.machines import FIELDS, PREFIX, unstated
from canserve.subjects.cluster import Node
from canserve.subjects.deployment import Site
from canserve.subjects.launch import Host, Process, filled
from canserve.subjects.machine import Machine
from canserve.subjects.parallel import Rank

VENDORS = ("nvidia", "amd", "intel", "none")


def named(targets: Sequence[str], options: Options, look: bool) -> tuple[Node, ...]:
    """Machines as the user names them. ``look``: with what is known of each. Raises SpecError."""
    try:
        if look:
            return read_nodes(targets, Way(options.offline, options.progress))
        return tuple(node for target in targets for node in _unlooked(target))
    except MachineError as error:
        raise SpecError(str(error), "canserve machine --list names every profile") from error


def _unlooked(target: str) -> tuple[Node, ...]:
    if target.endswith(SUFFIX):
        return read_cluster(Path(target)).nodes
    if target.lower().startswith(PREFIX) or not ADDRESS.fullmatch(target):
        raise SpecError(
            f"{target} is no machine that can be reached", "name an ssh destination or a cluster file"
        )
    return (bare(target, target, None),)


def bare(name: str, address: str, through: str | None) -> Node:
    """A machine of which nothing is known but how it is reached."""
    machine = Machine(name, **{field: unstated(name, field) for field in FIELDS})
    return Node(name, machine, address, through, None)


def kept(nodes: Sequence[Node]) -> list[dict[str, Any]]:
    """What the journal keeps of machines."""
    return [{"name": node.name, "address": node.address, "through": node.through} for node in nodes]


def from_kept(told: Sequence[Mapping[str, Any]]) -> tuple[Node, ...]:
    """And back."""
    return tuple(bare(one["name"], one["address"] or one["name"], one["through"]) for one in told)


def of_plan(names: Sequence[str], nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The machines of a plan, by their names in it. Raises SpecError for one that nobody named."""
    by_name = {node.name: node for node in nodes}
    if missing := [name for name in names if name not in by_name]:
        raise SpecError(
            f"the plan names {', '.join(missing)}, and no machine that was given is called so",
            "name the machines with which it was planned with --on, or plan again for these",
        )
    return tuple(by_name[name] for name in names)


def real(names: Sequence[str], nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The machines of a plan, by their names in it; then those on the way to them. Raises SpecError."""
    found = of_plan(names, nodes)
    for node in found:
        if node.address is None:
            raise SpecError(
                f"{node.name} has no address", "give it one in a cluster file, and name that with --on"
            )
    return (*found, *(node for node in nodes if node.name not in names))


def site(node: Node, ranks: Sequence[Rank], vendor: str | None, container: bool) -> Site:
    """A machine as steps need it. Raises SpecError where a container could not be given its accelerators."""
    devices = tuple(dict.fromkeys(rank.device for rank in ranks if rank.machine == node.name))
    if vendor == "none":
        return Site(node.name)
    known = node.machine.vendor.value if isinstance(node.machine.vendor, Known) else None
    vendor = vendor or known
    if container and vendor not in VENDORS:
        raise SpecError(
            f"{node.name}: which accelerators it has is not known"
            if vendor is None
            else f"{node.name}: how a container is given accelerators of {vendor} is not known",
            f"--accelerators {'|'.join(VENDORS)}",
        )
    found = node.machine.rdma_nodes
    return Site(node.name, devices, vendor, isinstance(found, Known) and bool(found.value))


def with_addresses(
    processes: Sequence[Process], placeholders: Mapping[str, str], nodes: Sequence[Node]
) -> tuple[Process, ...]:
    """The processes with addresses that the machines' own file says. Raises SpecError for those nobody says."""
    known = {Host(node.name).placeholder: node.ip for node in nodes if node.ip is not None}
    for name, what in placeholders.items():
        if name not in known:
            raise SpecError(
                f"not known: {what}", 'write ip = "..." in a cluster file, and name that with --on'
            )

    return filled(processes, {name: known[name] for name in placeholders})
