"""ipc-survives-logout: what ranks share is not removed when this user's last session ends."""

from __future__ import annotations

from canserve.checks.machines.question import ClusterCheck, each
from canserve.checks.reader import Reader
from canserve.subjects.cluster import Cluster, Node
from canserve.verdict import No, Verdict, Yes


def _survives(reader: Reader, node: Node) -> Verdict:
    removed = reader.read(node.machine.remove_ipc)
    if removed is None:
        return Yes("no systemd-logind is there that would remove it")
    if not removed:
        return Yes("systemd-logind leaves it")
    return No(
        "systemd-logind removes this user's shared memory at logout (RemoveIPC=yes): ranks started outside of "
        "containers die with `no such file` long after",
        "loginctl enable-linger, or RemoveIPC=no in /etc/systemd/logind.conf; containers as root are spared",
    )


def survives(reader: Reader, cluster: Cluster) -> Verdict:
    """The verdict of ``ipc-survives-logout``."""
    return each(reader, cluster.nodes, _survives)


IPC = ClusterCheck(
    "ipc-survives-logout",
    "Shared memory and semaphores of this user outlive the session in which they were made.",
    survives,
)
