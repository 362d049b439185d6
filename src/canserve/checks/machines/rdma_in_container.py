"""rdma-in-container: containers that hold accelerators were given the RDMA devices."""

from __future__ import annotations

from canserve.checks.machines.question import ClusterCheck, each
from canserve.checks.machines.rdma import active
from canserve.checks.reader import NotApplicable, Reader
from canserve.subjects.cluster import Cluster, Node
from canserve.subjects.host import Confines
from canserve.verdict import No, Unknown, Verdict, Yes

START = "start it with --device=/dev/infiniband --ulimit memlock=-1 --network=host"


def _given(reader: Reader, node: Node) -> Verdict:
    if not active(reader.read(node.machine.rdma)):
        raise NotApplicable("no RDMA port is active")
    running = reader.read(node.machine.containers)
    holding = [(c.name, c.confines) for c in running if c.confines is not None and c.confines.accelerators]
    if not holding:
        if any(each.confines is None for each in running):
            return Unknown("what its containers may use is not told", "look there: podman inspect CONTAINER")
        raise NotApplicable(f"no container with accelerators runs; {START.replace('it', 'one', 1)}")
    lacking = {name: lack for name, confines in holding if (lack := _lacking(confines))}
    if lacking:
        return No("; ".join(f"{name}: {lack}" for name, lack in lacking.items()), START)
    return Yes(f"{', '.join(name for name, _ in holding)} may use the RDMA devices")


def _lacking(confines: Confines) -> str:
    has = confines.privileged or any(each.startswith("/dev/infiniband") for each in confines.devices)
    missing = [] if has else ["no device of /dev/infiniband: it talks over TCP"]
    # An address of a RoCE port exists only in the network that has its interface.
    missing += [] if confines.host_network else ["a network of its own, which has none of the RDMA addresses"]
    return ", ".join(missing)


def in_container(reader: Reader, cluster: Cluster) -> Verdict:
    """The verdict of ``rdma-in-container``."""
    return each(reader, cluster.nodes, _given)


RDMA_IN_CONTAINER = ClusterCheck(
    "rdma-in-container",
    "Running containers that hold accelerators were given the RDMA devices and the machine's network.",
    in_container,
    of_several=True,
)
