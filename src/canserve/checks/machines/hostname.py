"""hostname-not-loopback: a machine's own name does not stand for the machine it is asked on."""

from __future__ import annotations

from ipaddress import ip_address

from canserve.checks.machines.question import ClusterCheck, each
from canserve.checks.reader import NotApplicable, Reader
from canserve.subjects.cluster import Cluster, Node
from canserve.verdict import No, Unknown, Verdict, Yes


def _own_name(reader: Reader, node: Node) -> Verdict:
    own = reader.read(node.machine.own_name)
    if not own.addresses:
        return Unknown(
            f"its name, {own.name}, stands for no address there",
            f"write {own.name} into /etc/hosts of {node.name}",
        )
    first = own.addresses[0].partition("%")[0]
    try:
        loopback = ip_address(first).is_loopback
    except ValueError:
        return Unknown(f"its name, {own.name}, stands for {first}", f"try there: getent ahosts {own.name}")
    if not loopback:
        return Yes(f"its name stands for {first}")
    if node.ip is not None and node.interface is not None:
        raise NotApplicable("its name leads to itself, but every process is told its address and interface")
    return No(
        f"its own name, {own.name}, stands for {first}: processes that advertise it are not found from elsewhere",
        "state ip and interface of each machine in the cluster file, or correct /etc/hosts there",
    )


def not_loopback(reader: Reader, cluster: Cluster) -> Verdict:
    """The verdict of ``hostname-not-loopback``."""
    return each(reader, cluster.nodes, _own_name)


HOSTNAME = ClusterCheck(
    "hostname-not-loopback",
    "Each machine's own name stands for an address that the others can reach, not for 127.0.1.1.",
    not_loopback,
    of_several=True,
    of_plans=True,
)
