"""How an image or a folder gets to machines: from where, over which way, how much of it, and whether there is room."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal

from canserve.units import Bytes

Road = Literal["there", "pull", "direct", "through"]
"""It lies there already; the machine fetches it from its registry; straight from another machine over the network
that joins them; through the machine that canserve runs on."""
WORDS: Mapping[Road, str] = {
    "there": "it is there",
    "pull": "from its registry",
    "direct": "straight over the network between them",
    "through": "through this machine",
}


@dataclass(frozen=True, slots=True)
class Stand:
    """A machine, as far as it matters for bringing something there."""

    name: str
    ip: str | None = None
    """On the network over which the machines serve together."""
    internet: bool | None = None
    holds: bool = False
    """All of it is there, by its digest."""


@dataclass(frozen=True, slots=True)
class Leg:
    """One machine's way to it."""

    to: str
    road: Road
    source: str | None = None
    """The machine it comes from; None: its registry, or nowhere."""


def legs(stands: Sequence[Stand], targets: Collection[str], registry: bool) -> tuple[tuple[Leg, ...], ...]:
    """Rounds, one after the other; within one, all at the same time.

    What has arrived somewhere is a source in the next round, so that no link carries it twice at once and
    the slow one of the operator no more often than needed. ``registry``: it can be fetched from one. A target that
    is missing in the answer cannot be reached by any road.
    """
    by_name = {stand.name: stand for stand in stands}
    sources = [stand for stand in stands if stand.holds]
    rounds = [tuple(Leg(name, "there") for name in targets if by_name[name].holds)]
    left = [by_name[name] for name in targets if not by_name[name].holds]
    while left:
        others = [stand for stand in stands if stand.name not in targets]
        found = _round(sources, left, others, registry)
        if not found:
            break
        rounds.append(found)
        done = {leg.to for leg in found}
        sources += [stand for stand in (*left, *others) if stand.name in done]
        left = [stand for stand in left if stand.name not in done]
    return tuple(each for each in rounds if each)


def _round(
    sources: Sequence[Stand], left: Sequence[Stand], others: Sequence[Stand], registry: bool
) -> tuple[Leg, ...]:
    found: list[Leg] = []
    waiting = list(left)
    for source in sources:  # every source serves one machine: the next round has twice as many
        near = next((stand for stand in waiting if source.ip and stand.ip), None)
        if near is not None:
            found.append(Leg(near.name, "direct", source.name))
            waiting.remove(near)
    if found:
        return tuple(found)
    if registry and not sources and all(stand.internet is False for stand in waiting):
        # Nobody who needs it may go out: whoever else can fetches it for them.
        return tuple(Leg(stand.name, "pull") for stand in others if stand.internet is not False)[:1]
    if registry and not sources:
        # The first with internet fetches it; who shares its network gets it from there, faster than from outside.
        online = [stand for stand in waiting if stand.internet is not False]
        first = next((stand for stand in online if stand.ip), None)
        pulling = [stand for stand in online if stand is first or not stand.ip]
        return tuple(Leg(stand.name, "pull") for stand in pulling)
    if sources and waiting:
        return (Leg(waiting[0].name, "through", sources[0].name),)
    return ()


def held(layers: Sequence[str], images: Sequence[Sequence[str]]) -> int:
    """How many of an image's lowest layers an engine has: it knows a layer by all that lies below it."""
    return max((_alike(layers, each) for each in images), default=0)


def _alike(one: Sequence[str], other: Sequence[str]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def sizes(history: Sequence[int], layers: Sequence[str]) -> tuple[Bytes, ...] | None:
    """Unpacked size of each layer, from what an engine says of each step, the newest first; None: it cannot be told."""
    found = [size for size in reversed(history) if size]
    if len(found) != len(layers):
        found = list(
            reversed(history)
        )  # a layer may be empty as well, and a step without one says nothing of it
    return tuple(Bytes(size) for size in found) if len(found) == len(layers) else None


@dataclass(frozen=True, slots=True)
class Room:
    """Disk that a copy needs, and what is free for it."""

    needed: Bytes
    free: Bytes | None
    """None: it could not be told."""
    where: str

    @property
    def enough(self) -> bool:
        """False only where it is certain."""
        return self.free is None or self.needed.count <= self.free.count

    @property
    def said(self) -> str:
        """For a person."""
        return f"{self.needed} are needed in {self.where}, and {self.free} are free there"


def eta(done: int, whole: int | None, seconds: float) -> str:
    """``120 MB of 2.0 GB, 95 MB/s, 20 s left``."""
    rate = done / seconds if seconds > 0 else 0.0
    said = f"{Bytes(done)} of {Bytes(whole)}" if whole is not None else f"{Bytes(done)}"
    if rate < 1:
        return said
    said = f"{said}, {Bytes(int(rate))}/s"
    left = (whole - done) / rate if whole is not None and whole > done else None
    return said if left is None else f"{said}, {_clock(left)} left"


def _clock(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
