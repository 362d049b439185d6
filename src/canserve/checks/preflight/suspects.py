"""Which two ranks are to be tried alone after a stall, and what is to be changed for them, one thing at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from canserve.checks.machines.network import Network, network
from canserve.checks.preflight.question import standing
from canserve.checks.reader import Reader, Unread
from canserve.facts import Known
from canserve.subjects.addresses import advertised
from canserve.subjects.cluster import Cluster, Node
from canserve.subjects.preflight import PHASES, Preflight, Rank

MOST = 6
BY_NAME = {"gloo": "GLOO_SOCKET_IFNAME", "nccl": "NCCL_SOCKET_IFNAME"}


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that is different."""

    name: str
    environment: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By machine."""
    master: str | None = None
    """Another address at which the ranks meet."""


def suspects(flight: Preflight) -> tuple[Rank, Rank] | None:
    """Two ranks between which it is likely to stand; None: it is no matter of two."""
    still = standing(flight)
    by_number = {rank.number: rank for rank in flight.ranks}
    if not still or len(flight.ranks) < 2:
        return None
    for rank in flight.ranks:
        for other, how in rank.reached.items():
            if how != "ok" and other in by_number:
                return rank, by_number[other]
    first = still[0]
    if PHASES.index(first.phase) < PHASES.index("store"):
        return None  # it never began: nothing between two ranks is at fault
    if first.phase in {"store", "meet"}:
        return _with_head(flight, first, by_number)
    if first.step.startswith("pair "):
        ends = [int(word) for word in first.step.split(" ")[1:3] if word.isdigit()]
        if len(ends) == 2 and all(end in by_number for end in ends):
            return by_number[ends[0]], by_number[ends[1]]
    far = [rank for rank in flight.ranks if rank.node != first.node]
    near = [rank for rank in flight.ranks if rank.number != first.number]
    return first, ([rank for rank in far if not rank.whole] or far or near)[0]


def _with_head(flight: Preflight, first: Rank, by_number: Mapping[int, Rank]) -> tuple[Rank, Rank]:
    missing = next((by_number[number] for number in first.absent if number in by_number), first)
    head = flight.ranks[0]
    return head, missing if missing is not head else flight.ranks[1]


def changes(flight: Preflight, cluster: Cluster, pair: tuple[Rank, Rank]) -> tuple[Change, ...]:
    """Nothing first, to see whether the two alone stand as well; then whatever may be it."""
    nodes = [node for node in cluster.nodes if node.name in {rank.node for rank in pair}]
    found = [Change("nothing")]
    at_store = min((rank.phase for rank in pair), key=PHASES.index) in {"store", "meet"}
    if at_store:
        found.append(Change("the port"))
        found += _addresses(flight, nodes[0])
    by_interface = _interfaces(flight, nodes)
    found += by_interface
    if flight.backend == "nccl":
        found += _nccl(flight, nodes)
    return tuple(found[:MOST])


def _addresses(flight: Preflight, head: Node) -> list[Change]:
    interfaces = head.machine.interfaces
    every = advertised(interfaces.value if isinstance(interfaces, Known) else (), None, None)
    used = flight.master.rpartition(":")[0]
    return [Change(f"meeting at {address}", master=address) for address in every if address != used][:2]


def _interfaces(flight: Preflight, nodes: list[Node]) -> list[Change]:
    variable = BY_NAME[flight.backend]
    if len(nodes) < 2:
        return [Change(f"{variable}=lo", {nodes[0].name: {variable: "lo"}})]
    try:
        found = network(Reader(), nodes)
    except Unread:
        return []
    if not isinstance(found, Network):
        return []
    names = {name: end.interface.name for name, end in found.ends.items()}
    said = "/".join(dict.fromkeys(names.values()))
    return [Change(f"{variable}={said}", {node: {variable: name} for node, name in names.items()})]


def _nccl(flight: Preflight, nodes: list[Node]) -> list[Change]:
    """Ways that NCCL takes by itself and that may be broken: one switched off at a time."""
    ways = ["NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_CUMEM_ENABLE=0"] if len(nodes) == 1 else []
    ways += ["NCCL_IB_DISABLE"] if len(nodes) > 1 else []
    ways += ["NCCL_NVLS_ENABLE=0"] if len(nodes) == 1 else ["NCCL_NET_GDR_LEVEL=LOC"]
    words = [(way.partition("=")[0], way.partition("=")[2] or "1") for way in ways]
    return [
        Change(f"{name}={value}", {node.name: {name: value} for node in nodes})
        for name, value in words
        if not any(f"{name} set by environment to {value}" in note for r in flight.ranks for note in r.notes)
    ]
