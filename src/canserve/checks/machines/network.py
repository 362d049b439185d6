"""The network over which machines serve together: stated in the cluster file, or else the one that all are on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from canserve.checks.machines.pinned import picks, settings
from canserve.checks.reader import NotApplicable, Reader
from canserve.facts import Cause, Missing
from canserve.subjects.addresses import Address, addresses, is_inner
from canserve.subjects.cluster import Node
from canserve.subjects.host import Interface
from canserve.verdict import No, Unknown

SETTING = "NCCL_SOCKET_IFNAME"
TELL = "state ip and interface of each machine in the cluster file"


@dataclass(frozen=True, slots=True)
class End:
    """Where a machine is on the network."""

    interface: Interface
    address: Address


@dataclass(frozen=True, slots=True)
class Network:
    """Where each machine is on it, by the machine's name."""

    ends: Mapping[str, End]
    stated: bool
    """Whether the cluster file says so for each."""


def network(reader: Reader, nodes: Sequence[Node]) -> Network | No | Unknown:
    """The network, or why it is none."""
    ends: dict[str, End] = {}
    for node in nodes:
        if node.ip is None and node.interface is None:
            continue
        found = _stated(node, read_interfaces(reader, node))
        if not isinstance(found, End):
            return found
        ends[node.name] = found
    stated = len(ends) == len(nodes)
    if stated:
        return Network(ends, stated=True)
    places = {
        n.name: _preferred(reader, n, _places(read_interfaces(reader, n)))
        for n in nodes
        if n.name not in ends
    }
    wanted = {end.address.network for end in ends.values()}
    common = set.intersection(*({end.address.network for end in found} for found in places.values()))
    common = (common & wanted if wanted else common) if len(wanted) < 2 else set()
    choices = [_ends(common_one, places) for common_one in common]
    choices = [found for found in choices if _apart([*found.values(), *ends.values()])]
    if not choices:
        return Unknown(
            f"{', '.join(n.name for n in nodes)} share no network that shows in their addresses", TELL
        )
    best = max(choices, key=lambda found: (_speed(found), str(next(iter(found.values())).address.network)))
    return Network({node.name: {**best, **ends}[node.name] for node in nodes}, stated=False)


def joined(reader: Reader, nodes: Sequence[Node]) -> Network:
    """The network; ends a check that needs one where there is none."""
    found = network(reader, nodes)
    if not isinstance(found, Network):
        raise NotApplicable("which network joins the machines is not settled: see interfaces-agree")
    return found


def read_interfaces(reader: Reader, node: Node) -> tuple[Interface, ...]:
    """A machine's interfaces with their addresses; ends the check as unknown where these were not told."""
    found = reader.read(node.machine.interfaces)
    if found and all(each.addresses is None for each in found):
        why = f"{node.name}: it does not tell its addresses"
        reader.read(Missing(Cause.UNAVAILABLE, why, ask="install iproute2 there"))
    return found


def _stated(node: Node, interfaces: Sequence[Interface]) -> End | No:
    """Where the cluster file says that it is."""
    named = [each for each in interfaces if each.name == node.interface]
    if node.interface is not None and not named:
        have = (
            ", ".join(each.name for each in interfaces if each.up and not is_inner(each)) or "none that is up"
        )
        return No(f"{node.name} has no interface {node.interface}", f"name one that it has: {have}")
    held = [(each, address) for each in named or interfaces for address in addresses(each)]
    if node.ip is not None:
        held = [(each, address) for each, address in held if str(address.ip) == node.ip]
    if not held:
        what = f"{node.interface or 'no interface'} of {node.name} has {'no address' if named and not node.ip else f'not the address {node.ip}'}"
        what = what if node.interface else f"no interface of {node.name} has the address {node.ip}"
        return No(what, f"give it that address, or correct the cluster file: {TELL}")
    return End(*held[0])


def _places(interfaces: Sequence[Interface]) -> tuple[End, ...]:
    usable = (each for each in interfaces if each.up and not is_inner(each))
    return tuple(End(each, address) for each in usable for address in addresses(each))


def _preferred(reader: Reader, node: Node, places: tuple[End, ...]) -> tuple[End, ...]:
    """Those that the collective library's setting leaves, where it leaves any."""
    setting = settings(reader, node).get(SETTING)
    left = tuple(end for end in places if setting and picks(setting.value, end.interface.name))
    return left or places


def _ends(network_: object, places: Mapping[str, Sequence[End]]) -> dict[str, End]:
    return {name: next(e for e in found if e.address.network == network_) for name, found in places.items()}


def _apart(ends: Sequence[End]) -> bool:
    """Two machines with one address are not on one network: each has it for itself."""
    return len({end.address.ip for end in ends}) == len(ends)


def _speed(ends: Mapping[str, End]) -> int:
    return min(end.interface.speed or 0 for end in ends.values())
