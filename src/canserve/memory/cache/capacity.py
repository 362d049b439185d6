"""What a pool of blocks holds: sequences at once, tokens, the longest sequence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from canserve.memory.cache.groups import Grouping
from canserve.memory.cache.spec import parts


@dataclass(frozen=True, slots=True)
class Pool:
    """A grouping and the conditions under which it is filled."""

    grouping: Grouping
    in_flight: int
    """Tokens computed at once."""
    shards: int = 1
    """Context parallel ranks."""
    reserved: int = 0
    """Blocks set aside before it is checked that a sequence fits."""
    whole: bool = False
    """Whether a stage counts blocks as if it held the unlike layers of all stages."""
    by_bytes: bool = False
    """Whether the sequences at once are counted from the bytes of groups, as if a block were the first one's."""

    def blocks(self, available: Sequence[float]) -> int:
        """Blocks on every rank: those of the stage that has room for the fewest. ``available``: bytes a stage."""
        sizes = self.grouping.stage_bytes
        if self.whole and self.grouping.unlike:
            sizes = (sum(sizes),) * len(sizes)
        counts = [int(room // size) for room, size in zip(available, sizes, strict=True) if size]
        return max(min(counts, default=0), 0)

    def needed(self, length: int) -> int:
        """Blocks that one sequence needs."""
        return sum(each.spec.blocks(length, self.in_flight, self.shards) for each in self.grouping.groups)

    def concurrency(self, blocks: int, length: int) -> float:
        """Sequences of that length at once."""
        return blocks / (self._needed_by_bytes(length) if self.by_bytes else self.needed(length))

    def _needed_by_bytes(self, length: int) -> int:
        groups = self.grouping.groups
        held = sum(each.spec.page * each.spec.blocks(length, self.in_flight, self.shards) for each in groups)
        return parts(held, groups[0].spec.page)

    def longest(self, blocks: int, most: int) -> int:
        """The longest sequence, at most ``most`` tokens; 0: not even one token fits."""
        low, high = 0, most
        while low < high:
            middle = (low + high + 1) // 2
            if self.needed(middle) <= blocks - self.reserved:
                low = middle
            else:
                high = middle - 1
        return low
