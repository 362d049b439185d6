"""How one machine reaches an address of another, as it was tried."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from canserve.facts import Cause, Fact, Known, Missing
from canserve.subjects.host import Told
from canserve.units import Rate

NOT_TRIED = Missing(
    Cause.UNREACHED,
    "what passes between the machines was not tried",
    ask="canserve machine CLUSTER --links",
)
"""What only packets between the machines can say, where none were sent."""
NOT_MEASURED = Missing(
    Cause.UNREACHED, "it was not measured", ask="canserve machine CLUSTER --links --bandwidth"
)


class Passage(StrEnum):
    """What became of a connection to a TCP port."""

    OPEN = "open"
    """Something listens there and took it."""
    FREE = "free"
    """Nothing listens there, and the machine itself said so: packets pass."""
    SILENT = "silent"
    """No answer came: packets are thrown away on the way or at its end."""
    TURNED_AWAY = "turned away"
    """A packet filter or a router said no."""


@dataclass(frozen=True, slots=True)
class Link(Told):
    """From one machine to one address of another that it would advertise."""

    source: str
    """Name of the machine that tried."""
    target: str
    address: str
    """Of the target."""
    reaches: Fact[bool]
    """Whether anything came back from there."""
    interface: Fact[str | None] = NOT_TRIED
    """Of the source, over which it goes; None: the source knows no way."""
    from_address: Fact[str | None] = NOT_TRIED
    mtu: Fact[int] = NOT_TRIED
    """Bytes of the largest packet that arrives in one piece."""
    latency: Fact[float] = NOT_TRIED
    """Milliseconds there and back, the shortest of a few."""
    ports: Fact[Mapping[int, Passage]] = NOT_TRIED
    bandwidth: Fact[Rate] = NOT_MEASURED
    """Of one TCP stream from the source to the target: a network has this at least."""
    rdma: tuple[str, str] | None = None
    """RDMA ports at both ends of the way, ``rocep1s0f0:1``; None: one end has none there."""

    def __str__(self) -> str:
        words = [f"{self.source} -> {self.target} {self.address}"]
        if isinstance(self.reaches, Missing):
            return f"{words[0]}: unknown: {self.reaches.why}"
        words.append("reached" if self.reaches.value else "not reached")
        if isinstance(self.interface, Known) and self.interface.value:
            words.append(f"over {self.interface.value}")
        if isinstance(self.mtu, Known):
            words.append(f"MTU {self.mtu.value}")
        if isinstance(self.latency, Known):
            words.append(f"{self.latency.value:.3g} ms")
        if isinstance(self.bandwidth, Known):
            words.append(f"{self.bandwidth.value}")
        if isinstance(self.ports, Known):
            words += [f"port {n} {how}" for n, how in self.ports.value.items() if how not in {"open", "free"}]
        if self.rdma is not None:
            words.append(f"RDMA {self.rdma[0]} to {self.rdma[1]}")
        return f"{words[0]}: {', '.join(words[1:])}"
