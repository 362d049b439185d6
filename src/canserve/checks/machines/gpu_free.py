"""gpu-free: nothing else holds the accelerators' memory now."""

from __future__ import annotations

from canserve.checks.machines.question import ClusterCheck, each
from canserve.checks.reader import NotApplicable, Reader
from canserve.subjects.cluster import Cluster, Node
from canserve.subjects.host import Accelerator, GpuProcess
from canserve.units import Bytes
from canserve.verdict import No, Unknown, Verdict, Yes

SMALL = 1 << 30
"""Bytes that a display server, a monitor or the driver itself hold; what serves a model holds more."""
SHARE = 0.05
"""Of an accelerator's memory, the same."""


def _free(reader: Reader, node: Node) -> Verdict:
    found = reader.read(node.machine.accelerators)
    if not found:
        raise NotApplicable("no accelerator is on its buses")
    held = [(gpu, _held(gpu)) for gpu in found]
    busy = [gpu for gpu, it in held if it is True]
    if busy:
        who = list(dict.fromkeys(process for gpu in busy for process in _large(gpu)))
        names = ", ".join(map(str, who)) or "a process that the driver does not name"
        which = f"{len(busy)} of {len(found)} accelerators are" if len(found) > 1 else "its accelerator is"
        return No(f"{which} held by {names}", f"stop on {node.name}: {names}")
    unsaid = [gpu for gpu, it in held if it is None]
    if unsaid:
        return Unknown("the driver does not say who holds how much of its memory", "look there: nvidia-smi")
    return Yes("nothing holds much of their memory")


def _held(gpu: Accelerator) -> bool | None:
    """Whether much of its memory is held; None: not told."""
    if gpu.total is not None and gpu.free is not None:
        held = gpu.total.count - gpu.free.count
        return held > max(SMALL, SHARE * gpu.total.count)
    if gpu.processes is None:
        return None
    if _sum(gpu.processes) > SMALL:
        return True
    return None if any(process.memory is None for process in gpu.processes) else False


def _sum(processes: tuple[GpuProcess, ...]) -> int:
    return sum(process.memory.count for process in processes if process.memory is not None)


def _large(gpu: Accelerator) -> tuple[GpuProcess, ...]:
    """Those that matter; all, where none says how much it holds."""
    told = [p for p in gpu.processes or () if p.memory is not None and p.memory > Bytes(SMALL)]
    return tuple(told or gpu.processes or ())


def free(reader: Reader, cluster: Cluster) -> Verdict:
    """The verdict of ``gpu-free``."""
    return each(reader, cluster.nodes, _free)


GPU_FREE = ClusterCheck(
    "gpu-free", "Nothing holds much of the accelerators' memory now: at most 1 GiB, or a twentieth.", free
)
