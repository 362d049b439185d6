"""addresses-advertised-reach: the address that each machine tells the others answers them."""

from __future__ import annotations

from canserve.checks.machines.network import Network, network
from canserve.checks.machines.question import ClusterCheck
from canserve.checks.reader import NotApplicable, Reader
from canserve.facts import Missing
from canserve.subjects.cluster import Cluster
from canserve.subjects.links import NOT_TRIED, Link
from canserve.verdict import No, Unknown, Verdict, Yes

NOT_SENT = "nothing was sent between the machines: canserve machine CLUSTER --links"


def links_of(reader: Reader, cluster: Cluster) -> tuple[Link, ...]:
    """Links over the network that joins the machines; where it is not settled, all of them.

    Ends the check where none was tried.
    """
    if cluster.links is NOT_TRIED:
        raise NotApplicable(NOT_SENT)
    names = {node.name for node in cluster.nodes}
    links = tuple(link for link in reader.read(cluster.links) if {link.source, link.target} <= names)
    found = network(reader, cluster.nodes)
    if isinstance(found, Network):
        own = {(name, str(end.address.ip)) for name, end in found.ends.items()}
        links = tuple(link for link in links if (link.target, link.address) in own)
    return links


def reach(reader: Reader, cluster: Cluster) -> Verdict:
    """The verdict of ``addresses-advertised-reach``."""
    links = links_of(reader, cluster)
    if not links:
        return Unknown(
            "no address of any machine is known that it would advertise", "state ip in the cluster file"
        )
    for link in links:
        reader.cite(link.reaches.evidence)
    silent = [link for link in links if not isinstance(link.reaches, Missing) and not link.reaches.value]
    by_pair: dict[tuple[str, str], list[Link]] = {}
    for link in links:
        by_pair.setdefault((link.source, link.target), []).append(link)
    # Several addresses of a machine: the one that is advertised has to be among those that answer.
    dead = [pair for pair, of in by_pair.items() if all(link in silent for link in of)]
    if dead:
        said = "; ".join(_silent(by_pair[pair]) for pair in dead)
        return No(
            said, "correct ip and interface in the cluster file, the cable, the route or the packet filter"
        )
    if unknown := [link for link in links if isinstance(link.reaches, Missing)]:
        first = unknown[0]
        assert isinstance(first.reaches, Missing)
        why = f"{first.source} to {first.target} ({first.address}): {first.reaches.why}"
        return Unknown(why, first.reaches.ask or f"try there: ping {first.address}")
    good = [link for link in links if link not in silent]
    needs = tuple(
        f"{link.address} of {link.target} not advertised: {link.source} does not reach it" for link in silent
    )
    said = ", ".join(dict.fromkeys(f"{link.target} {link.address}" for link in good))
    return Yes(f"every machine reaches the others: {said}", needs)


def _silent(links: list[Link]) -> str:
    first = links[0]
    return f"{first.source} does not reach {first.target} at {', '.join(link.address for link in links)}"


ADDRESSES = ClusterCheck(
    "addresses-advertised-reach",
    "Every machine reaches the address that each other one advertises; judged where links were tried.",
    reach,
    of_several=True,
    of_plans=True,
)
