"""reachable: every machine runs a script over the user's own ssh."""

from __future__ import annotations

from canserve.checks.machines.question import ClusterCheck, each
from canserve.checks.reader import Reader
from canserve.subjects.cluster import Cluster, Node
from canserve.verdict import Verdict, Yes


def _reached(reader: Reader, node: Node) -> Verdict:
    """It never says no: that a machine was not reached proves nothing about it, and a minute later it may be."""
    reader.read(node.machine.clock_skew)
    return Yes("it was reached and answered")


def reachable(reader: Reader, cluster: Cluster) -> Verdict:
    """The verdict of ``reachable``."""
    return each(reader, cluster.nodes, _reached)


REACHABLE = ClusterCheck(
    "reachable",
    "Every machine lets this user in and answers a read-only script.",
    reachable,
    of_plans=True,
    of_unreached=True,
)
