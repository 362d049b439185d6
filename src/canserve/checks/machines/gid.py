"""gid-agrees: RoCE ports have an address that the other machines reach, at an index that is the right one on each."""

from __future__ import annotations

from canserve.checks.machines.pinned import settings, unsaid
from canserve.checks.machines.question import ClusterCheck, each
from canserve.checks.machines.rdma import active
from canserve.checks.reader import NotApplicable, Reader
from canserve.subjects.cluster import Cluster, Node
from canserve.subjects.host import RdmaGid, RdmaPort
from canserve.verdict import No, Unknown, Verdict, Yes

SETTING = "NCCL_IB_GID_INDEX"


def routed(port: RdmaPort) -> tuple[RdmaGid, ...]:
    """Its RoCE v2 addresses that stand for an IPv4 one; those of the link alone lead nowhere in most networks."""
    return tuple(gid for gid in port.gids if "v2" in gid.kind and gid.ipv4 is not None)


def _ethernet(reader: Reader, node: Node) -> tuple[RdmaPort, ...]:
    return tuple(port for port in active(reader.read(node.machine.rdma)) if port.link_layer == "Ethernet")


def agrees(reader: Reader, cluster: Cluster) -> Verdict:
    """The verdict of ``gid-agrees``."""
    if not any(_ethernet(reader, node) for node in cluster.nodes):
        raise NotApplicable("no machine has an active RoCE port")
    verdict = each(reader, cluster.nodes, _own)
    if not isinstance(verdict, Yes):
        return verdict
    indices = {node.name: _indices(reader, node) for node in cluster.nodes}
    shared = set.intersection(*(set(found) for found in indices.values()))
    said = ", ".join(f"{name} {' or '.join(map(str, found))}" for name, found in indices.items())
    if shared:
        return Yes(f"RoCE v2 over IPv4 is at GID {min(shared)} on every machine ({said})")
    return Yes(
        f"RoCE v2 over IPv4 is at different GIDs: {said}",
        (f"{SETTING} not set to one value for all machines",),
    )


def _indices(reader: Reader, node: Node) -> list[int]:
    """Those at which every port that has one has it, else any port has it."""
    ports = [{gid.index for gid in routed(port)} for port in _ethernet(reader, node)]
    sets = [found for found in ports if found]
    common = set.intersection(*sets) if sets else set()
    return sorted(common or {index for found in sets for index in found})


def _own(reader: Reader, node: Node) -> Verdict:
    ports = _ethernet(reader, node)
    if not ports:
        return No("it has no active RoCE port, and others have", f"connect its RoCE port on {node.name}")
    have = {port.device: routed(port) for port in ports}
    if not any(have.values()):
        if any(gid.kind == "" for port in ports for gid in port.gids):
            return Unknown("its kernel does not tell the kinds of its GIDs", "look there: show_gids")
        names = ", ".join(sorted({gid.interface for p in ports for gid in p.gids if gid.interface}) or have)
        return No(
            "no RoCE v2 GID of an active port stands for an IPv4 address",
            f"give its interface one on {node.name}: {names}",
        )
    pinned = settings(reader, node).get(SETTING)
    if pinned is not None and (said := unsaid(node.name, SETTING, pinned)) is not None:
        return said
    good = sorted({gid.index for gids in have.values() for gid in gids})
    if pinned is not None and pinned.value.isdigit() and int(pinned.value[:6]) not in good:
        return No(
            f"{pinned.where} sets {SETTING}={pinned.value}, but RoCE v2 over IPv4 is at {', '.join(map(str, good))}",
            f"remove {SETTING} on {node.name}, or set it to {good[0]}",
        )
    return Yes(f"RoCE v2 over IPv4 at GID {', '.join(map(str, good))}")


GID = ClusterCheck(
    "gid-agrees",
    "Active RoCE ports have a routable RoCE v2 address on every machine, and no setting pins another one.",
    agrees,
    of_several=True,
    of_plans=True,
)
