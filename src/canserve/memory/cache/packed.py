"""How layers of many page sizes, most of them windows, share one pool of blocks (DeepSeek V4).

A block holds, of one group, a page of every layer; groups of different bytes overlay each other, so a block is as
large as the largest of them. Source: vLLM 0.20.0, 0.23.0, 0.27.0 and 0.29.0, v1/core/kv_cache_utils.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from canserve.memory.cache.groups import Group, Grouping, Unequal, kind
from canserve.memory.cache.spec import Growth, Spec, parts


class Packing(StrEnum):
    """How much a block takes."""

    NONE = "none"
    """Such layers are not served."""
    TUPLES = "tuples"
    """One page of each size, times the layers of the largest group."""
    SLOTS = "slots"
    """Of each size as many pages as the group with the most of that size."""
    SLABS = "slabs"
    """What the largest group takes."""
    WIDEST = "widest"
    """The same; groups are only as fine as kinds with pages of several sizes ask."""

    @property
    def padded(self) -> bool:
        """Whether windows take pages of the sizes that full attention has."""
        return self in {Packing.TUPLES, Packing.SLOTS}


@dataclass(frozen=True, slots=True)
class _Kind:
    """Layers that need the same blocks."""

    specs: tuple[tuple[int, Spec], ...]
    """With their places in the whole list."""

    @property
    def sizes(self) -> Counter[int]:
        """Layers by page size."""
        return Counter(spec.page for _, spec in self.specs)

    @property
    def most(self) -> int:
        """Layers of the commonest size."""
        return max(self.sizes.values())

    @property
    def balanced(self) -> bool:
        """Whether there are as many layers of each size."""
        return len(set(self.sizes.values())) == 1

    @property
    def bounded(self) -> bool:
        """Whether they see a window."""
        return self.specs[0][1].growth is not Growth.FULL

    def split(self, size: int) -> Iterator[_Kind]:
        """Groups of at most that many layers of each size."""
        count = parts(self.most, size)
        for first in range(count):
            seen: Counter[int] = Counter()
            own = []
            for at, spec in self.specs:
                if seen[spec.page] % count == first:
                    own.append((at, spec))
                seen[spec.page] += 1
            yield _Kind(tuple(own))


def pack(stages: Sequence[Sequence[Spec]], packing: Packing) -> Grouping:
    """The groups of layers, one kind of which at least is full attention. Raises Unequal."""
    if packing is Packing.NONE:
        raise Unequal("does not serve a cache that is compressed along the sequence")
    kinds = _kinds([spec for stage in stages for spec in stage], packing)
    size = _layers_of_group(kinds, packing)
    groups = [
        part for each in kinds for part in (each.split(size) if each.balanced and each.bounded else (each,))
    ]
    places = [range(sum(map(len, stages[:at])), sum(map(len, stages[: at + 1]))) for at in range(len(stages))]
    on_stage = [[_Kind(tuple(s for s in each.specs if s[0] in own)) for each in groups] for own in places]
    return Grouping(
        tuple(_group(each, own) for each, own in zip(groups, on_stage[0], strict=True)),
        tuple(_block_bytes(own, packing) for own in on_stage),
        overlaid=True,
    )


def _group(whole: _Kind, first: _Kind) -> Group:
    """``first``: the part of it on the first stage, whose bytes are the group's page."""
    bytes_ = sum(spec.page for _, spec in first.specs or whole.specs)
    return Group(replace(whole.specs[0][1], page=bytes_), tuple(at for at, _ in whole.specs))


def _kinds(specs: Sequence[Spec], packing: Packing) -> list[_Kind]:
    full = sorted({spec.page for spec in specs if spec.growth is Growth.FULL})
    found: dict[tuple[object, ...], list[tuple[int, Spec]]] = {}
    for at, spec in enumerate(specs):
        padded = _padded(spec, full) if packing.padded and spec.growth is not Growth.FULL else spec
        found.setdefault(kind(spec), []).append((at, padded))
    kinds = [_Kind(tuple(each)) for each in found.values()]
    return sorted(kinds, key=lambda each: each.specs[0][1].growth is not Growth.FULL)


def _padded(spec: Spec, sizes: Sequence[int]) -> Spec:
    for size in sizes:
        if size >= spec.page:
            return replace(spec, page=size)
    raise Unequal(f"cannot keep in one pool a window with pages of {spec.page} bytes")


def _layers_of_group(kinds: Sequence[_Kind], packing: Packing) -> int:
    if packing is Packing.WIDEST:
        least = max((each.most for each in kinds if each.balanced and len(each.sizes) > 1), default=0)
        counts = [each.most for each in kinds if each.balanced]
        return _finest(counts, least) if least else max(each.most for each in kinds)
    counts = [each.most for each in kinds]
    return _finest(counts, counts[0])


def _finest(counts: Sequence[int], least: int) -> int:
    """The size of groups, at least that, into which the counts go with the fewest places left empty."""
    sizes = range(least, max(*counts, least) + 1)
    return min(sizes, key=lambda size: (sum(-count % size for count in counts), -size))


def _block_bytes(groups: Sequence[_Kind], packing: Packing) -> int:
    sizes = [each.sizes for each in groups]
    match packing:
        case Packing.TUPLES:
            tuple_bytes = sum(sizes[0])
            return tuple_bytes * max(max(each.values(), default=0) for each in sizes)
        case Packing.SLOTS:
            pages = {page for each in sizes for page in each}
            return sum(page * max(each[page] for each in sizes) for page in pages)
        case _:
            return max(sum(page * count for page, count in each.items()) for each in sizes)
