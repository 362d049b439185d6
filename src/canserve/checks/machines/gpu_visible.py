"""gpu-visible: the driver's own tool shows the accelerators that the machine has."""

from __future__ import annotations

from collections import Counter

from canserve.checks.machines.question import ClusterCheck, each
from canserve.checks.reader import NotApplicable, Reader
from canserve.facts import Cause, Missing
from canserve.subjects.cluster import Cluster, Node
from canserve.verdict import No, Verdict, Yes


def _visible(reader: Reader, node: Node) -> Verdict:
    fact = node.machine.accelerators
    answered = bool(fact.evidence) and all(look.whole for look in fact.evidence)
    if isinstance(fact, Missing) and fact.cause is Cause.UNAVAILABLE and answered:
        # The tool ran and said so itself; one that hangs, or whose answer was cut, has said nothing.
        reader.cite(fact.evidence)
        why = fact.why.removeprefix(f"{node.machine.subject}: ")
        return No(why, fact.ask or "load the driver and make its tool work")
    found = reader.read(fact)
    if not found:
        raise NotApplicable("no accelerator is on its buses")
    counts = Counter(gpu.name or gpu.arch_name or "accelerator" for gpu in found)
    return Yes(", ".join(f"{count} x {name}" for name, count in counts.items()))


def visible(reader: Reader, cluster: Cluster) -> Verdict:
    """The verdict of ``gpu-visible``."""
    return each(reader, cluster.nodes, _visible)


GPU_VISIBLE = ClusterCheck(
    "gpu-visible", "The driver's own tool shows the accelerators that are on each machine's buses.", visible
)
