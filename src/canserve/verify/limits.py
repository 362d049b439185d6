"""How long and how much: every bound of a verification in one value."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds; the defaults suit a real server, tests take smaller ones."""

    total: float = 600.0
    """Seconds for everything; what there is no time for is not asked, and said so."""
    patience: float = 60.0
    """Seconds for one answer."""
    connect: float = 10.0
    body: int = 8 << 20
    """Largest reply, in bytes."""
    line: int = 1 << 20
    """Longest line of a stream, in bytes."""
    settle: float = 8.0
    """Seconds in which a server has to notice that a client has gone."""
    crowd: int = 64
    """Requests at once that are more than a small server holds."""
    copies: int = 16
    """Requests at once of one question."""
    shares: tuple[float, ...] = (0.25, 0.5, 0.9)
    """Of the context, that long prompts fill."""
    longest: int = 1 << 20
    """Tokens of the longest prompt that is sent, whatever the server claims."""
    decode: int = 128
    """Tokens of one sample of decoding."""
    samples: int = 3
    """Samples of each speed."""
    prefill: int = 4096
    """Tokens of a prompt whose prefill is timed."""
    step: float = 20.0
    """Seconds for a step of the ramp."""
    ramp: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128, 256)


QUICK = Limits(
    total=120.0, crowd=16, copies=8, shares=(0.25,), longest=8192, samples=2, decode=64, prefill=2048, ramp=()
)


@dataclass(slots=True)
class Clock:
    """The time of one verification."""

    limits: Limits
    start: float = field(default_factory=time.monotonic)

    def restart(self) -> None:
        """Count from now on: waiting for a server that starts is no part of it."""
        self.start = time.monotonic()

    def left(self) -> float:
        """Seconds left of it."""
        return self.limits.total - (time.monotonic() - self.start)
