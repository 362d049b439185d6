"""Links between machines: every ordered pair tries each address that the other would advertise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from canserve.commands.links import Trial, seconds, trial
from canserve.facts import Fact, Known, Missing
from canserve.probes.links.bandwidth import measured
from canserve.probes.links.reading import SECTION, Pair, links
from canserve.probes.live import WIDTH, Way, asked
from canserve.subjects.addresses import advertised, is_inner
from canserve.subjects.cluster import Cluster, Node
from canserve.subjects.host import Interface
from canserve.subjects.links import Link
from canserve.transport.frames import Section
from canserve.transport.reach import Limits
from canserve.trees.fanout import fanout

PORTS = (22, 6379, 29500, 41952, 58573)
"""TCP ports that are tried: sshd's, Ray's, that of torch's rendezvous, and two of those from which ranks choose."""
ALWAYS = (1500, 1280)
"""Bytes of packets that are tried beside the sizes that the machine's own interfaces carry."""
MOST_SIZES = 4


def with_links(cluster: Cluster, way: Way, *, bandwidth: bool = False) -> Cluster:
    """The cluster with what its machines said of each other. Never raises for what a machine does."""
    live = [node for node in cluster.nodes if node.address is not None and node.look and node.machine.reached]
    if len(cluster.nodes) < 2 or not live or way.offline:
        return cluster
    if way.tell is not None:
        way.tell(f"trying what passes between {len(cluster.nodes)} machines")
    found = fanout(lambda node: _from(node, cluster.nodes, way), live, WIDTH)
    every = tuple(link for of in found for link in of)
    if bandwidth:
        every = measured(every, cluster.nodes, way)
    looks = (look for link in every for look in link.reaches.evidence)
    return replace(cluster, links=Known(every, tuple(dict.fromkeys(looks)))) if every else cluster


def _from(source: Node, nodes: Sequence[Node], way: Way) -> tuple[Link, ...]:
    """Everything that one machine tries, in one script."""
    pairs = [Pair(source, node, _advertised(node)) for node in nodes if node is not source]
    wanted = tuple(dict.fromkeys(address for pair in pairs for address in pair.addresses))
    if not wanted:
        return ()
    script = trial(Trial(wanted, PORTS, _sizes(source.machine.interfaces)))
    section = Section(SECTION, script, limit=4_000_000)
    look = asked(
        source, {node.name: node for node in nodes}, (section,), way, Limits(whole=seconds(len(wanted)))
    )
    return tuple(link for pair in pairs for link in links(pair, look))


def _advertised(node: Node) -> tuple[str, ...]:
    found = node.machine.interfaces
    return advertised(() if isinstance(found, Missing) else found.value, node.ip, node.interface)


def _sizes(found: Fact[tuple[Interface, ...]]) -> tuple[int, ...]:
    interfaces = found.value if isinstance(found, Known) else ()
    own = {each.mtu for each in interfaces if each.up and not is_inner(each) and each.mtu}
    sizes = sorted({size for size in own if 1280 < size <= 65535} | {*ALWAYS}, reverse=True)
    return (*sizes[: MOST_SIZES - 1], ALWAYS[-1]) if len(sizes) > MOST_SIZES else tuple(sizes)
