"""interfaces-agree: one network joins the machines, and what pins an interface pins that one."""

from __future__ import annotations

from canserve.checks.machines.network import SETTING, Network, network
from canserve.checks.machines.pinned import allows, settings, unsaid
from canserve.checks.machines.question import ClusterCheck
from canserve.checks.reader import Reader
from canserve.subjects.cluster import Cluster
from canserve.verdict import No, Unknown, Verdict, Yes

SETTINGS = (SETTING, "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
"""Variables by which the three libraries that join ranks are told their interface."""


def agree(reader: Reader, cluster: Cluster) -> Verdict:
    """The verdict of ``interfaces-agree``."""
    found = network(reader, cluster.nodes)
    if not isinstance(found, Network):
        return found
    down = [f"{end.interface.name} of {name}" for name, end in found.ends.items() if not end.interface.up]
    if down:
        return No(f"{', '.join(down)} is down", "connect it, or bring it up: ip link set dev INTERFACE up")
    if (pinned := _pinned(reader, cluster, found)) is not None:
        return pinned
    said = ", ".join(f"{name} {end.interface.name} {end.address}" for name, end in found.ends.items())
    networks = {end.address.network for end in found.ends.values()}
    if len(networks) > 1:
        return Unknown(
            f"their addresses are of different networks: {said}", "try it: canserve machine CLUSTER --links"
        )
    names = dict.fromkeys(end.interface.name for end in found.ends.values())
    needs: tuple[str, ...] = ()
    if not found.stated:
        needs = ("ip and interface of each machine in the cluster file",)
    elif len(names) > 1:
        needs = ("the interface set on each machine by itself",)
    return Yes(f"all are on {networks.pop()}: {said}", needs)


def _pinned(reader: Reader, cluster: Cluster, found: Network) -> No | Unknown | None:
    """A setting of the collective library that leads elsewhere, or may."""
    doubt: Unknown | None = None
    for node in cluster.nodes:
        name = found.ends[node.name].interface.name
        for variable, setting in settings(reader, node).items():
            if variable not in SETTINGS or allows(variable, setting.value, name):
                continue
            if (said := unsaid(node.name, variable, setting)) is not None:
                doubt = Unknown(f"{node.name}: {said.because}", said.ask)
                continue
            return No(
                f"{node.name}: {setting.where} sets {variable}={setting.value}, but the machines are joined over {name}",
                f"correct {variable} in {setting.where} of {node.name}",
            )
    return doubt


INTERFACES = ClusterCheck(
    "interfaces-agree",
    "One network joins the machines: each has an interface on it that is up, and no setting pins another.",
    agree,
    of_several=True,
    of_plans=True,
)
