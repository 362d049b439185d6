"""Whether the ranks talk over what the machines have, and as fast as that is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from canserve.checks.preflight.question import PreflightCheck, only_after
from canserve.checks.reader import NotApplicable, Reader
from canserve.facts import Fact
from canserve.subjects.cluster import Cluster, Node
from canserve.subjects.preflight import Measure, Preflight
from canserve.units import Rate
from canserve.verdict import No, Unknown, Verdict, Yes

ENOUGH = 0.4
"""Of the link's rate, for two ranks that send to each other in turn: one NIC of several, one message in flight. A
fallback to TCP or to the host's memory stays below a fifth."""


def _transport(reader: Reader, cluster: Cluster, flight: Preflight) -> Verdict:
    if flight.backend != "nccl":
        raise NotApplicable("gloo knows TCP alone")
    if len(flight.ranks) < 2:
        raise NotApplicable("one rank has nobody to talk to")
    only_after(flight, "bootstrap", "ranks-connect")
    if not flight.channels:
        only_after(flight, "first", "ranks-connect")
        return Unknown("NCCL did not say which way it takes", "run it again with --env NCCL_DEBUG=INFO")
    nodes = {node.name: node for node in cluster.nodes}
    slow, near, said = [], [], set()
    for channel in flight.channels:
        a, b = flight.node(channel.source), flight.node(channel.target)
        said.add(f"{channel.via} {'on' if a == b else 'between'} {a if a == b else f'{a} and {b}'}")
        if a != b and channel.via == "NET/Socket" and all(_has_rdma(reader, nodes[name]) for name in (a, b)):
            slow.append(f"{a} and {b} talk over TCP (NET/Socket) though both have an active RDMA port")
        if a == b and channel.via.startswith("NET"):
            near.append(f"ranks {channel.source} and {channel.target} on {a} use the network ({channel.via})")
    if near:
        fix = "look for NCCL_P2P_DISABLE and NCCL_SHM_DISABLE, and for room in /dev/shm"
        return No("; ".join(dict.fromkeys(near)), fix)
    if slow:
        return No("; ".join(dict.fromkeys(slow)), "see rdma-in-container, gid-agrees and NCCL_IB_* settings")
    return Yes(", ".join(sorted(said)))


def _has_rdma(reader: Reader, node: Node) -> bool:
    return any(port.state == "ACTIVE" for port in reader.try_read(node.machine.rdma) or ())


def _rate(reader: Reader, cluster: Cluster, flight: Preflight) -> Verdict:
    pairs = [measure for measure in flight.measures if measure.pair]
    if not pairs:
        raise NotApplicable("no pair of ranks was measured")
    nodes = {node.name: node for node in cluster.nodes}
    said, slow, unknown = [], [], []
    for measure in pairs:
        words, link = _against(reader, measure, flight, nodes)
        if link is None:
            unknown.append(words)
        elif flight.backend == "nccl" and measure.bus.per_second < ENOUGH * link.per_second:
            slow.append(words)
        else:
            said.append(words)
    if slow:
        return No("; ".join(slow[:4]), "see transport-fits, mtu-agrees and how the devices are cabled")
    if flight.backend != "nccl":
        raise NotApplicable(
            "gloo's own rate says little of a link's: machine --links --bandwidth measures it"
        )
    if unknown:
        return Unknown(
            "; ".join(unknown[:4]), "state the machines' intra_node and inter_node in the cluster file"
        )
    return Yes("; ".join(said[:4]))


def _against(
    reader: Reader, measure: Measure, flight: Preflight, nodes: Mapping[str, Node]
) -> tuple[str, Rate | None]:
    a, b = measure.pair or (0, 0)
    link = link_rate(reader, nodes[flight.node(a)], nodes[flight.node(b)])
    return f"ranks {a} and {b}: {measure.bus}{share(measure, link) or ', of a link of unknown rate'}", link


def share(measure: Measure, link: Rate | None) -> str:
    """``, 60% of 450 GB/s``; empty where the link's rate is not known."""
    return f", {measure.bus.per_second / link.per_second:.0%} of {link}" if link else ""


def link_rate(reader: Reader, here: Node, there: Node) -> Rate | None:
    """Of the slower end: as it is stated of the machines, else that of their RDMA ports; None: it is not known."""
    same = here.name == there.name
    facts = (node.machine.intra_node if same else node.machine.inter_node for node in (here, there))
    found = [rate for fact in facts if (rate := _stated(reader, fact)) is not None]
    if not found and not same:
        found = list(_of_ports(reader, here, there))
    return min(found, key=lambda rate: rate.per_second) if found else None


def _stated(reader: Reader, fact: Fact[str]) -> Rate | None:
    """``NVLink, 450 GB/s each way``."""
    found = re.search(r"([0-9.]{1,8}) GB/s each way", reader.try_read(fact) or "")
    return Rate(int(float(found[1]) * 1e9)) if found else None


def _of_ports(reader: Reader, *ends: Node) -> Iterator[Rate]:
    """The fastest active RDMA port of each: ``200 Gb/sec (4X HDR)``."""
    for node in ends:
        ports = [p for p in reader.try_read(node.machine.rdma) or () if p.state == "ACTIVE"]
        rates = [re.match(r"([0-9.]{1,8}) Gb/sec", port.rate) for port in ports]
        if found := [float(match[1]) for match in rates if match]:
            yield Rate(int(max(found) * 1e9 / 8))


TRANSPORT = PreflightCheck(
    "transport-fits",
    "Ranks talk over the fastest way that their machines have: RDMA, NVLink, shared memory.",
    _transport,
)
RATE = PreflightCheck(
    "pairs-at-link-rate", f"Every two ranks reach {ENOUGH:.0%} of the rate of the link between them.", _rate
)
