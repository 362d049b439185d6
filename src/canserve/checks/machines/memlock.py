"""memlock-unlimited: processes may lock the memory that RDMA needs in place."""

from __future__ import annotations

from canserve.checks.machines.question import ClusterCheck, each
from canserve.checks.machines.rdma import active
from canserve.checks.reader import NotApplicable, Reader
from canserve.subjects.cluster import Cluster, Node
from canserve.units import Bytes
from canserve.verdict import No, Unknown, Verdict, Yes

TOO_LITTLE = Bytes(1 << 30)
"""Buffers of the collective library are a few MiB for each channel and peer: with less than this, registering them
fails sooner or later. The usual limits of a login are 64 KiB and 8 MiB."""
FIX = "write `* - memlock unlimited` to /etc/security/limits.d and log in again; for containers --ulimit memlock=-1"


def _unlimited(reader: Reader, node: Node) -> Verdict:
    if not active(reader.read(node.machine.rdma)):
        raise NotApplicable("no RDMA port is active: nothing has to be locked")
    running = reader.try_read(node.machine.containers) or ()
    for one in running:
        locks = one.confines.locks if one.confines is not None and one.confines.accelerators else True
        if isinstance(locks, Bytes) and locks < TOO_LITTLE:
            return No(f"{one.name} may lock only {locks}", "start it with --ulimit memlock=-1")
    limit = reader.read(node.machine.memlock)
    if limit is None:
        return Yes("a process of this login may lock any amount of memory")
    if limit < TOO_LITTLE:
        return No(f"a process of this login may lock only {limit}", FIX)
    return Unknown(f"a process of this login may lock {limit}: enough for most, but not without limit", FIX)


def unlimited(reader: Reader, cluster: Cluster) -> Verdict:
    """The verdict of ``memlock-unlimited``."""
    return each(reader, cluster.nodes, _unlimited)


MEMLOCK = ClusterCheck(
    "memlock-unlimited",
    "Where RDMA is used, a process of this login may lock any amount of memory.",
    unlimited,
    of_several=True,
)
