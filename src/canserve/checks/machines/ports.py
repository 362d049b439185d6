"""ports-open: what ranks listen on is reached from the other machines."""

from __future__ import annotations

from canserve.checks.machines.addresses import NOT_SENT, links_of
from canserve.checks.machines.question import ClusterCheck, each
from canserve.checks.reader import NotApplicable, Reader
from canserve.facts import Known
from canserve.subjects.cluster import Cluster, Node
from canserve.subjects.links import NOT_TRIED, Link, Passage
from canserve.verdict import No, Unknown, Verdict, Yes

LET_IN = (
    "let the machines in from each other on every port, as ranks choose theirs freely: ufw allow from NETWORK"
)


def open_(reader: Reader, cluster: Cluster) -> Verdict:
    """The verdict of ``ports-open``."""
    if cluster.links is NOT_TRIED:
        verdict = each(reader, cluster.nodes, _by_rules)
        seen = all(isinstance(n.machine.firewall_rules, Known) for n in cluster.nodes)
        if isinstance(verdict, Yes) and not seen:
            raise NotApplicable(NOT_SENT)  # of some machines nobody knows what they turn away
        return verdict
    links = [link for link in links_of(reader, cluster) if isinstance(link.ports, Known)]
    if not links:
        return Unknown(
            "no port was tried", "canserve machine CLUSTER --links, with bash or python3 on the machines"
        )
    for link in links:
        reader.cite(link.ports.evidence)
    shut = {(link.source, link.target): _shut(link) for link in links if _shut(link)}
    if shut:
        said = (f"{target} lets {source} in on none of {ports}" for (source, target), ports in shut.items())
        return No("; ".join(said), LET_IN)
    return Yes(f"every port that was tried passes ({_ports(links[0])})")


def _shut(link: Link) -> str:
    """Ports on which nothing came back, or a no."""
    ports = link.ports.value if isinstance(link.ports, Known) else {}
    away = {port for port, how in ports.items() if how in {Passage.SILENT, Passage.TURNED_AWAY}}
    return ", ".join(map(str, sorted(away)))


def _ports(link: Link) -> str:
    return ", ".join(map(str, sorted(link.ports.value))) if isinstance(link.ports, Known) else "none"


def _by_rules(reader: Reader, node: Node) -> Verdict:
    """What can be said where nothing was sent: that nothing stands in the way, or that something may."""
    rules = reader.try_read(node.machine.firewall_rules)
    if rules:
        return Unknown(
            f"its packet filter turns packets away: {rules[0]}", "try it: canserve machine CLUSTER --links"
        )
    if rules is not None:
        return Yes("no rule of its packet filter turns anything away that comes in")
    if services := reader.try_read(node.machine.firewall):
        return Unknown(
            f"{', '.join(services)} is active, and only a privileged user sees its rules",
            "try it: canserve machine CLUSTER --links",
        )
    raise NotApplicable(NOT_SENT)


PORTS = ClusterCheck(
    "ports-open",
    "Machines let each other in on the ports on which ranks find each other.",
    open_,
    of_several=True,
    of_plans=True,
)
