"""rdma-usable: RDMA ports are active, and processes may open them."""

from __future__ import annotations

from canserve.checks.machines.pinned import picks, settings, unsaid
from canserve.checks.machines.question import ClusterCheck, each
from canserve.checks.reader import NotApplicable, Reader
from canserve.subjects.cluster import Cluster, Node
from canserve.subjects.host import RdmaPort
from canserve.verdict import No, Verdict, Yes

SETTING = "NCCL_IB_HCA"
OFF = "NCCL_IB_DISABLE"


def active(ports: tuple[RdmaPort, ...]) -> tuple[RdmaPort, ...]:
    """Ports with a link."""
    return tuple(port for port in ports if port.state == "ACTIVE")


def usable(reader: Reader, cluster: Cluster) -> Verdict:
    """The verdict of ``rdma-usable``."""
    if not any(reader.read(node.machine.rdma) for node in cluster.nodes):
        raise NotApplicable("no machine has an RDMA device: ranks talk over TCP")
    return each(reader, cluster.nodes, _usable)


def _usable(reader: Reader, node: Node) -> Verdict:
    ports = reader.read(node.machine.rdma)
    if not ports:
        return No("it has no RDMA device, and the others have", f"install or load the driver on {node.name}")
    up = active(ports)
    if not up:
        said = ", ".join(f"{port.device} {port.state}" for port in ports)
        return No(
            f"no RDMA port has a link: {said}", f"connect a cable, or bring its interface up on {node.name}"
        )
    found = settings(reader, node)
    for variable in (OFF, SETTING):
        if variable in found and (unclear := unsaid(node.name, variable, found[variable])) is not None:
            return unclear
    if (off := found.get(OFF)) is not None and off.value != "0":
        return No(f"{off.where} sets {OFF}={off.value}: ranks talk over TCP", f"remove {OFF} on {node.name}")
    pinned = found.get(SETTING)
    chosen = [port for port in up if pinned is None or picks(pinned.value, port.device)]
    if not chosen and pinned is not None:
        return No(
            f"{pinned.where} sets {SETTING}={pinned.value}, but active are {', '.join(port.device for port in up)}",
            f"correct {SETTING} on {node.name}",
        )
    if not any(name.startswith("uverbs") for name in reader.read(node.machine.rdma_nodes)):
        return No("/dev/infiniband has no uverbs device", f"load the kernel module ib_uverbs on {node.name}")
    return Yes(
        ", ".join(f"{port.device} port {port.port} ({port.link_layer}, {port.rate})" for port in chosen)
    )


RDMA = ClusterCheck(
    "rdma-usable",
    "Every machine has an active RDMA port that processes may open; else ranks fall back to TCP without a word.",
    usable,
    of_several=True,
    of_plans=True,
)
