"""shared-memory-enough: ranks of one machine have room to pass each other data."""

from __future__ import annotations

from canserve.checks.machines.question import ClusterCheck, each
from canserve.checks.reader import Reader
from canserve.subjects.cluster import Cluster, Node
from canserve.units import Bytes
from canserve.verdict import No, Unknown, Verdict, Yes

ENOUGH = Bytes(1 << 30)
"""Source: NCCL's guide, "Troubleshooting", asks for --shm-size=1g; containers have 64 MB unless told otherwise."""
TOO_LITTLE = Bytes(256 << 20)
"""Below this the queues over which an engine's processes talk do not fit beside the collective library's."""


def _enough(reader: Reader, node: Node) -> Verdict:
    running = reader.try_read(node.machine.containers) or ()
    small = [
        f"{each.name} was started with {size} of its own"
        for each in running
        if each.confines is not None
        and each.confines.accelerators
        and (size := each.confines.shared_memory) is not None
        and size < TOO_LITTLE
    ]
    if small:
        return No("; ".join(small), "start it with --ipc=host or --shm-size=1g")
    found = reader.read(node.machine.shared_memory)
    if found is None:
        return No("it has no /dev/shm", "mount a tmpfs there")
    if found.free < TOO_LITTLE:
        what = f"shared memory (/dev/shm) has {found.total}, {found.free} of it free"
        held = found.total >= ENOUGH
        fix = (
            "remove what crashed processes left there: ls /dev/shm"
            if held
            else "mount -o remount,size=8G /dev/shm"
        )
        return No(what, fix)
    if found.free < ENOUGH:
        return Unknown(
            f"shared memory (/dev/shm) has {found.free} free",
            "1 GB is asked for: mount -o remount,size=8G /dev/shm",
        )
    return Yes(f"shared memory (/dev/shm) has {found.free} free")


def enough(reader: Reader, cluster: Cluster) -> Verdict:
    """The verdict of ``shared-memory-enough``."""
    return each(reader, cluster.nodes, _enough)


SHARED_MEMORY = ClusterCheck(
    "shared-memory-enough",
    "Shared memory (/dev/shm) has 1 GB free, and no running container with accelerators was left with less than 256 MB of its own.",
    enough,
)
