"""Checks of machines, by themselves and against each other: one file a question, all of them in one tuple."""

from __future__ import annotations

from collections.abc import Sequence

from canserve.checks.machines.addresses import ADDRESSES
from canserve.checks.machines.collective import COLLECTIVE
from canserve.checks.machines.container_engine import CONTAINER_ENGINE, FOR_IMAGES
from canserve.checks.machines.gid import GID
from canserve.checks.machines.gpu_free import GPU_FREE
from canserve.checks.machines.gpu_visible import GPU_VISIBLE
from canserve.checks.machines.hostname import HOSTNAME
from canserve.checks.machines.images import IMAGES
from canserve.checks.machines.interfaces import INTERFACES
from canserve.checks.machines.ipc import IPC
from canserve.checks.machines.memlock import MEMLOCK
from canserve.checks.machines.mtu import MTU
from canserve.checks.machines.ports import PORTS
from canserve.checks.machines.question import ClusterCheck
from canserve.checks.machines.rdma import RDMA
from canserve.checks.machines.rdma_in_container import RDMA_IN_CONTAINER
from canserve.checks.machines.reachable import REACHABLE
from canserve.checks.machines.shared_memory import SHARED_MEMORY
from canserve.checks.machines.weights import WEIGHTS
from canserve.subjects.cluster import Cluster, Node
from canserve.verdict import Finding, Skipped

CHECKS: tuple[ClusterCheck, ...] = (
    REACHABLE,
    CONTAINER_ENGINE,
    GPU_VISIBLE,
    GPU_FREE,
    INTERFACES,
    ADDRESSES,
    HOSTNAME,
    PORTS,
    MTU,
    RDMA,
    RDMA_IN_CONTAINER,
    GID,
    MEMLOCK,
    SHARED_MEMORY,
    IPC,
    COLLECTIVE,
    IMAGES,
    WEIGHTS,
)
"""In the order in which a reader wants to see them: the machine, the network, what lies on it."""


def judge(
    cluster: Cluster, checks: Sequence[ClusterCheck] = CHECKS
) -> tuple[tuple[Finding, ...], tuple[Skipped, ...]]:
    """What each of them says of these machines, and which do not apply to them."""
    found = [each.judge(cluster) for each in checks]
    return (
        tuple(each for each in found if isinstance(each, Finding)),
        tuple(each for each in found if isinstance(each, Skipped)),
    )


NOT_TOGETHER = (
    "whether the machines can serve together: name degrees, -- --tensor-parallel-size N, or plan it"
)


def runs_images(nodes: Sequence[Node]) -> tuple[tuple[Finding, ...], tuple[Skipped, ...]]:
    """Whether each of these machines, any of which may be taken, can run an image at all."""
    return judge(Cluster("", tuple(nodes)), [FOR_IMAGES])


def each_alone(
    nodes: Sequence[Node], *, image: bool = False
) -> tuple[tuple[Finding, ...], tuple[Skipped, ...]]:
    """What is said of machines where no layout over several was asked for: how they go together does not count then."""
    found, rest = runs_images(nodes) if image else ((), ())
    about = ", ".join(node.name for node in nodes)
    of_several = [each for each in CHECKS if each.of_plans and each.of_several] if len(nodes) > 1 else []
    return found, (*(Skipped(each.name, about, NOT_TOGETHER) for each in of_several), *rest)


def for_serving(cluster: Cluster, *, image: bool = False) -> tuple[tuple[Finding, ...], tuple[Skipped, ...]]:
    """Those that decide whether something can be served on these machines, whatever runs there now.

    ``image``: whether the build is one, so that a container engine has to run it.
    """
    of_containers = [FOR_IMAGES] if image else []
    of_several = [each for each in CHECKS if each.of_plans] if len(cluster.nodes) > 1 else []
    return judge(cluster, [*of_several, *of_containers])
