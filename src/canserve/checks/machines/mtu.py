"""mtu-agrees: packets have one size on the whole way."""

from __future__ import annotations

from canserve.checks.machines.addresses import links_of
from canserve.checks.machines.network import joined
from canserve.checks.machines.question import ClusterCheck
from canserve.checks.reader import Reader
from canserve.facts import Known
from canserve.subjects.cluster import Cluster
from canserve.subjects.links import NOT_TRIED
from canserve.verdict import No, Unknown, Verdict, Yes


def agrees(reader: Reader, cluster: Cluster) -> Verdict:
    """The verdict of ``mtu-agrees``."""
    found = joined(reader, cluster.nodes)
    sizes = {name: end.interface.mtu for name, end in found.ends.items()}
    said = ", ".join(f"{name} {mtu if mtu is not None else 'not told'}" for name, mtu in sizes.items())
    if any(mtu is None for mtu in sizes.values()):
        return Unknown(f"the MTU of an interface is not told: {said}", "look there: ip link")
    known = [mtu for mtu in sizes.values() if mtu is not None]
    if len(set(known)) > 1:
        return No(
            f"the interfaces that join the machines have different MTUs: {said}",
            f"set all of them to one: ip link set dev INTERFACE mtu {min(known)}",
        )
    if cluster.links is NOT_TRIED:
        return Yes(f"the interfaces that join the machines have one MTU, {known[0]}; nothing was sent")
    return _end_to_end(reader, cluster, known[0])


def _end_to_end(reader: Reader, cluster: Cluster, size: int) -> Verdict:
    links = links_of(reader, cluster)
    for link in links:
        reader.cite(link.mtu.evidence)
    for link in links:
        if isinstance(link.mtu, Known) and link.mtu.value < size:
            return No(
                f"packets of {size} bytes do not pass from {link.source} to {link.target}, those of "
                f"{link.mtu.value} do",
                f"raise the MTU of what lies between to {size}, or lower that of the interfaces",
            )
    unknown = [link for link in links if not isinstance(link.mtu, Known)]
    if unknown:
        first = unknown[0]
        return Unknown(
            f"the interfaces have one MTU, {size}; whether such packets pass from {first.source} to {first.target} "
            "could not be tried",
            f"try there: ping -M do -s {size - 28} {first.address}",
        )
    return Yes(f"packets of {size} bytes pass between all machines")


MTU = ClusterCheck(
    "mtu-agrees",
    "The interfaces that join the machines have one MTU; where links were tried, such packets pass end to end.",
    agrees,
    of_several=True,
    of_plans=True,
)
