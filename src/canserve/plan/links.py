"""The links between accelerators: what kind they are, how fast, and what an all-reduce over them takes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log2

from canserve.facts import Fact, Known
from canserve.rules.speed import Constant, LinkKind, constant, link_kind, named_link
from canserve.subjects.machine import Machine

GIGA = 1e9
MICRO = 1e-6
UNKNOWN_INSIDE = LinkKind(
    "a link inside the machine that is not stated", Constant(20.0, 5.0, 100.0), growth=1.0
)
UNKNOWN_OUTSIDE = LinkKind("a network that is not stated", Constant(80.0, 18.0, 500.0), growth=1.0)


@dataclass(frozen=True, slots=True)
class Link:
    """One link. ``rate`` is bytes a second each way, of one accelerator."""

    kind: LinkKind
    rate: Constant

    @property
    def stated(self) -> bool:
        """Whether the machine says what kind of link it is."""
        return self.kind not in (UNKNOWN_INSIDE, UNKNOWN_OUTSIDE)

    @property
    def name(self) -> str:
        """What it is called."""
        return self.kind.name

    def reduce(self, size: float, ranks: int, end: str) -> float:
        """Seconds of one all-reduce of ``size`` bytes. ``end``: ``value``, ``fast`` or ``slow``."""
        if ranks < 2:
            return 0.0
        latency = _pick(self.kind.latency, end, smaller_is_faster=True) * MICRO
        rounds = 1 + self.kind.growth * (ceil(log2(ranks)) - 1)
        return latency * rounds + 2 * (ranks - 1) / ranks * size / self._reached(end)

    def send(self, size: float, end: str) -> float:
        """Seconds until ``size`` bytes are on the other side; one way is about half of an all-reduce."""
        latency = _pick(self.kind.latency, end, smaller_is_faster=True) * MICRO / 2
        return latency + size / self._reached(end)

    def _reached(self, end: str) -> float:
        share = _pick(constant("link"), end, smaller_is_faster=False)
        return _pick(self.rate, end, smaller_is_faster=False) * share


def inside(machine: Machine) -> Link:
    """Between the accelerators of one machine."""
    return _link(machine.intra_node, UNKNOWN_INSIDE, Constant(25.0, 8.0, 450.0))


def between(machines: Sequence[Machine]) -> Link:
    """Between machines: the slowest of what they have."""
    found = [_link(machine.inter_node, UNKNOWN_OUTSIDE, Constant(12.5, 1.0, 50.0)) for machine in machines]
    return min(found, key=lambda link: (link.rate.value, -link.kind.latency.value))


def _link(fact: Fact[str], unknown: LinkKind, guess: Constant) -> Link:
    text = fact.value if isinstance(fact, Known) else ""
    kind = link_kind(text) or unknown
    if kind is unknown and text and unknown is UNKNOWN_OUTSIDE:
        kind = named_link("Ethernet")
    rate = rate_of(text)
    if rate is not None:
        return Link(kind, Constant(rate, rate, rate))
    return Link(kind, Constant(*(each * GIGA for each in (guess.value, guess.low, guess.high))))


def rate_of(text: str) -> float | None:
    """Bytes a second each way that a machine's words state; None: they state none.

    >>> rate_of("NVLink, 450 GB/s each way"), rate_of("RoCE, 3 x 200 Gb/s an accelerator"), rate_of("XGMI")
    (450000000000.0, 75000000000.0, None)
    """
    match = re.search(r"(?:(\d{1,3})\s*x\s*)?(\d{1,5}(?:\.\d{1,3})?)\s*(GB/s|Gb/s|GbE)", text)
    if match is None:
        return None
    rate = float(match[2]) * int(match[1] or 1)
    return (rate if match[3] == "GB/s" else rate / 8) * GIGA


def _pick(constant: Constant, end: str, smaller_is_faster: bool) -> float:
    match end:
        case "fast":
            return constant.low if smaller_is_faster else constant.high
        case "slow":
            return constant.high if smaller_is_faster else constant.low
        case _:
            return constant.value
