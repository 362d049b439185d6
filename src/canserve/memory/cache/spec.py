"""What one layer keeps in a paged cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum


class Growth(StrEnum):
    """How what a layer keeps of one sequence grows with its length."""

    FULL = "full"
    WINDOW = "window"
    CHUNK = "chunk"
    STATE = "state"
    STATES = "states"


@dataclass(frozen=True, slots=True)
class Spec:
    """One layer's share of the cache on one rank. Layers of equal specs share block tables."""

    growth: Growth
    block: int
    """Tokens of a block; of a state, the length that one block stands for."""
    page: int
    """Bytes of a block."""
    window: int = 0
    """Tokens of the window or chunk."""
    states: int = 1
    """Blocks of state one sequence holds; where there is one for every block of tokens, beside them."""

    @property
    def recurrent(self) -> bool:
        """Whether it keeps state, whose page may be padded to any size."""
        return self.growth in {Growth.STATE, Growth.STATES}

    def longer(self, times: int) -> Spec:
        """The same layer with blocks that many times as long."""
        return replace(self, block=self.block * times, page=self.page * times)

    def blocks(self, length: int, in_flight: int, shards: int = 1) -> int:
        """Blocks that one sequence of that length needs at most.

        ``in_flight``: tokens computed at once, which a window keeps beside itself. ``shards``: context parallel
        ranks that the tokens of full attention are dealt to.
        """
        match self.growth:
            case Growth.FULL:
                return parts(parts(length, shards), self.block)
            case Growth.WINDOW:
                # One more: the window need not begin at the beginning of a block.
                return parts(min(self.window - 1 + in_flight, length), self.block) + 1
            case Growth.CHUNK:
                return parts(min(self.window + in_flight, length), self.block)
            case Growth.STATE:
                return self.states
            case Growth.STATES:
                return parts(length, self.block) + self.states


def parts(whole: int, part: int) -> int:
    """How many parts hold the whole."""
    return -(-whole // part)


def as_full(specs: Sequence[Spec]) -> list[Spec]:
    """Windows and chunks kept as full attention, where full attention is among them."""
    if not any(spec.growth is Growth.FULL for spec in specs):
        return list(specs)
    bounded = {Growth.WINDOW, Growth.CHUNK}
    return [replace(spec, growth=Growth.FULL, window=0) if spec.growth in bounded else spec for spec in specs]
