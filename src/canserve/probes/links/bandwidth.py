"""How fast one stream of bytes gets from one machine to another: one pair after the other, a second each."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace

from canserve.commands.links import ALARM, listen, send
from canserve.facts import Cause, Evidence, Fact, Known, Missing
from canserve.probes.live import Way, asked
from canserve.subjects.cluster import Node
from canserve.subjects.links import Link
from canserve.transport.frames import Answer, Section
from canserve.transport.reach import Limits, Look
from canserve.trees.fanout import fanout
from canserve.units import Rate

EVERY_PAIR = 8
"""Machines up to which every pair is measured; of more, each with the next one."""
FIRST_PORT, LAST_PORT = 20000, 32000
"""Below those that the kernel gives to connections."""
HOW = "a TCP stream for a second, between two python3"


def measured(links: Sequence[Link], nodes: Sequence[Node], way: Way) -> tuple[Link, ...]:
    """The links with the rate of those that reach their end; never two at once, as they would share the network."""
    by_name = {node.name: node for node in nodes}
    names = list(by_name)
    after = {name: names[(at + 1) % len(names)] for at, name in enumerate(names)}
    wanted = {(name, after[name]) for name in names} if len(names) > EVERY_PAIR else None
    return tuple(
        replace(link, bandwidth=_rate(link, own, by_name, way))
        if (own := _sends_from(link)) is not None and (wanted is None or (link.source, link.target) in wanted)
        else link
        for link in links
    )


def _sends_from(link: Link) -> str | None:
    """The source's own address on a way that leads to its end."""
    if isinstance(link.reaches, Missing) or not link.reaches.value:
        return None
    return link.from_address.value if isinstance(link.from_address, Known) else None


def _rate(link: Link, own: str, nodes: Mapping[str, Node], way: Way) -> Fact[Rate]:
    if way.tell is not None:
        way.tell(f"measuring {link.source} to {link.target}")
    port = FIRST_PORT + secrets.randbelow(LAST_PORT - FIRST_PORT)
    jobs = (
        (nodes[link.target], listen(link.address, port, own)),
        (nodes[link.source], send(link.address, port, own)),
    )
    taken, sent = fanout(lambda job: _run(*job, nodes, way), jobs, 2)
    return rate(link, taken, sent)


def _run(node: Node, script: str, nodes: Mapping[str, Node], way: Way) -> Look:
    return asked(node, nodes, (Section("stream", script, limit=2000),), way, Limits(whole=ALARM + 12.0))


def rate(link: Link, taken: Look, sent: Look) -> Fact[Rate]:
    """Bytes that came, by the seconds that they took at the end to which they came."""
    for name, look in ((link.target, taken), (link.source, sent)):
        answer = look.section("stream")
        if not isinstance(answer, Answer):
            return answer
        if answer.status != 0:
            what = "has no python3" if answer.status == 127 else f"took part in no stream: {answer.complaint}"
            evidence = Evidence(look.subject, HOW, answer.complaint, whole=False, when=look.when)
            return Missing(
                Cause.UNAVAILABLE, f"{name} {what}", (evidence,), "measure it there by hand: iperf3"
            )
    answer = taken.section("stream")
    text = answer.text if isinstance(answer, Answer) else ""
    evidence = Evidence(
        taken.subject, f"{HOW}: {link.source} to {link.address}", text.strip()[:100], when=taken.when
    )
    said = re.search(r"^received (\d{1,15}) ([0-9.e-]{1,25})$", text, re.MULTILINE)
    try:
        seconds = float(said[2]) if said else 0.0
    except ValueError:
        seconds = 0.0
    if said is None or seconds <= 0 or int(said[1]) == 0:
        return Missing(Cause.UNREADABLE, f"{link.target} received nothing that could be counted", (evidence,))
    return Known(Rate(int(int(said[1]) / seconds)), (evidence,))
