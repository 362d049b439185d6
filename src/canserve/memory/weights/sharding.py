"""Bytes of weights on each rank of a layout."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import lru_cache

from canserve.memory.layers.kinds import Layer
from canserve.memory.quantity import Quantity
from canserve.memory.weights.cuts import NOTHING, Place, Span, Spot, dtype_on, share, spots
from canserve.memory.weights.loading import Loading
from canserve.rules.weights import Padding, allocator, margin
from canserve.subjects.parallel import Parallel, Placement, Rank
from canserve.subjects.tensor import Tensor

Pieces = dict[str, Span]
"""Bytes by the allocation that holds them."""


@dataclass(frozen=True, slots=True)
class Experts:
    """Routed experts of one layer that lie in one allocation."""

    number: int
    each: Span
    within: str


@dataclass(slots=True)
class Stack:
    """What one layer, or one end of the model, holds."""

    pieces: Pieces = field(default_factory=dict)
    experts: list[Experts] = field(default_factory=list)
    sums: dict[tuple[int, int], Span] = field(default_factory=dict)
    """Of what is allocated, by the share of the experts, remembered."""

    def add(self, within: str, span: Span) -> None:
        """Put bytes into an allocation."""
        self.pieces[within] = self.pieces.get(within, NOTHING).plus(span)

    def bytes(self, spread: int, position: int) -> Span:
        """Allocated on a rank that holds this share of the experts."""
        if (spread, position) not in self.sums:
            self.sums[spread, position] = self._bytes(spread, position)
        return self.sums[spread, position]

    def _bytes(self, spread: int, position: int) -> Span:
        pieces = dict(self.pieces)
        for each in self.experts:
            span = _times(each.each, _held(each.number, spread, position))
            pieces[each.within] = pieces.get(each.within, NOTHING).plus(span)
        total = NOTHING
        for span in pieces.values():
            total = total.plus(_allocated(span))
        return total


@dataclass(slots=True)
class Parts:
    """What ranks of one tensor parallel degree hold, by where it lies."""

    layers: dict[int, Stack] = field(default_factory=dict)
    """Layers that hold the same share one."""
    first: Stack = field(default_factory=Stack)
    """Embedding and towers."""
    last: Stack = field(default_factory=Stack)
    """Output head, final norm and layers that predict ahead."""
    both: Stack = field(default_factory=Stack)
    """The embedding where it serves as head too: once on a stage that is first, last or both."""
    numbers: set[int] = field(default_factory=set)
    """How many experts there are, in any layer."""

    def position(self, position: int, spread: int) -> int:
        """The first share of the experts that is as large as this one."""
        like = [position < number % spread for number in self.numbers]
        return next(at for at in range(position + 1) if [at < n % spread for n in self.numbers] == like)


def rank_weights(tensors: tuple[Tensor, ...], how: Loading, placement: Placement) -> tuple[Quantity, ...]:
    """Bytes of weights on every rank, in the order of ``placement.ranks``, as allocated on the device.

    Layers are dealt to pipeline stages by ``placement.layers``; the embedding lies on the first stage, final
    norm and head on the last, a tied embedding on both ends, towers on the first. Routed experts are spread
    over ``parallel.ep`` ranks (the first ranks hold one more where they do not divide) and cut over the rest.
    """
    parts = _parts(tensors, how, placement.parallel)
    edges = _edges(placement)
    spread, _ = _degrees(how, placement.parallel)
    remembered: dict[tuple[int, int], Quantity] = {}
    out = []
    for rank in placement.ranks:
        position = _expert_position(rank, how, placement.parallel)
        key = (rank.pp, parts.position(position, spread))
        if key not in remembered:
            remembered[key] = _rank(parts, how, placement, edges[rank.pp], key)
        out.append(remembered[key])
    return tuple(out)


def _edges(placement: Placement) -> tuple[range, ...]:
    """The layers of each stage."""
    found, at = [], 0
    for count in placement.layers:
        found.append(range(at, at + count))
        at += count
    return tuple(found)


def _across(how: Loading, parallel: Parallel) -> bool:
    """Whether replicas hold the experts together: always, or where they are spread over more than one of them."""
    return how.across_replicas or parallel.joined


def _degrees(how: Loading, parallel: Parallel) -> tuple[int, int]:
    """Over how many ranks experts are spread, and over how many each is cut."""
    ranks = parallel.tp * (parallel.dp if _across(how, parallel) else 1)
    spread = max(1, min(parallel.ep, ranks))
    return spread, max(1, ranks // spread)


def _expert_position(rank: Rank, how: Loading, parallel: Parallel) -> int:
    """Which of the shares of the experts a rank holds."""
    spread, cut = _degrees(how, parallel)
    index = rank.dp * parallel.tp + rank.tp if _across(how, parallel) else rank.tp
    return min(index // cut, spread - 1)


def _rank(parts: Parts, how: Loading, placement: Placement, layers: range, key: tuple[int, int]) -> Quantity:
    """One rank: ``key`` is its stage and which share of the experts it holds."""
    stage, position = key
    spread, _ = _degrees(how, placement.parallel)
    is_first, is_last = stage == 0, stage == len(placement.layers) - 1
    total = Span(how.buffers, how.buffers, how.buffers)
    dealt = sum(placement.layers)
    beyond = [number for number in parts.layers if number >= dealt] if is_last else []
    for number in (*layers, *beyond):  # more layers in the headers than the config says: the last stage's
        if number in parts.layers:
            total = total.plus(parts.layers[number].bytes(spread, position))
    ends = ((parts.first, is_first), (parts.last, is_last), (parts.both, is_first or is_last))
    for stack, here in ends:
        if here:
            total = total.plus(stack.bytes(spread, position))
    return _quantity(total, len(layers))


def _held(number: int, spread: int, position: int) -> int:
    """How many of the experts a rank holds: the first ones take what is left over."""
    return number // spread + (position < number % spread)


def _times(span: Span, count: int) -> Span:
    return Span(span.value * count, span.low * count, span.high * count)


def _allocated(span: Span) -> Span:
    """What the allocator counts for it."""
    rounds = allocator().taken
    return Span(rounds(span.value), min(span.low, rounds(span.low)), rounds(span.high))


def _quantity(total: Span, layers: int) -> Quantity:
    bounds = margin()
    low = max(0.0, total.low * (1 - bounds.below) - bounds.bytes)
    high = total.high * (1 + bounds.above) + bounds.bytes
    return Quantity(total.value, low, high, f"tensors of {layers} layers as the engine cuts them")


def _parts(tensors: tuple[Tensor, ...], how: Loading, parallel: Parallel) -> Parts:
    """The tensors added up. The degrees that matter are few: layouts of many machines share them."""
    return _added(tensors, how, parallel.tp, _degrees(how, parallel))


@lru_cache(maxsize=64)
def _added(tensors: tuple[Tensor, ...], how: Loading, ranks: int, degrees: tuple[int, int]) -> Parts:
    where = spots(tensors)
    tied = how.tied or all(found.place is not Place.HEAD for found in where)
    parts = Parts()
    for tensor, found in zip(tensors, where, strict=True):
        if found.place is not Place.LAYER:
            stack = _stack(parts, found, how, tied)
            if stack is not None:
                parts.numbers |= _put(stack, tensor, found, how, (ranks, degrees[1]))
    for numbers, members in alike_layers(tensors, how.layers):
        stack = Stack()
        for tensor, found in members:
            parts.numbers |= _put(stack, tensor, found, how, (ranks, degrees[1]))
        parts.layers.update(dict.fromkeys(numbers, stack))
    return parts


Members = tuple[tuple[Tensor, Spot], ...]


@lru_cache(maxsize=8)
def alike_layers(
    tensors: tuple[Tensor, ...], layers: tuple[Layer, ...]
) -> tuple[tuple[tuple[int, ...], Members], ...]:
    """Decoder layers that hold the same: their numbers, and the tensors of one of them."""
    held: dict[int, list[tuple[Tensor, Spot]]] = {}
    for tensor, found in zip(tensors, spots(tensors), strict=True):
        if found.place is Place.LAYER:
            held.setdefault(found.layer, []).append((tensor, found))
    kinds: dict[object, list[int]] = {}
    for number, members in held.items():
        mixers = layers[number].mixers if 0 <= number < len(layers) else None
        same = tuple(
            (_NUMBER.sub("#", tensor.name), tensor.shape, tensor.dtype, tensor.copies)
            for tensor, _ in members
        )
        kinds.setdefault((mixers, same), []).append(number)
    return tuple((tuple(numbers), tuple(held[numbers[0]])) for numbers in kinds.values())


_NUMBER = re.compile(r"\d+")


def _put(stack: Stack, tensor: Tensor, found: Spot, how: Loading, cut: tuple[int, int]) -> frozenset[int]:
    """Add a tensor, cut over so many ranks, experts over so many; the number of experts, if it is of some."""
    within = found.within if found.place is Place.LAYER else tensor.name
    if found.experts and found.place in {Place.LAYER, Place.AHEAD}:
        experts = _experts(tensor, found, how, cut[1], within)
        stack.experts.append(experts)
        return frozenset({experts.number})
    stack.add(within, _times(share(tensor, found, how, cut[0]), tensor.copies))
    _absorb(stack, tensor, found, how, cut[0])
    return frozenset()


def _stack(parts: Parts, found: Spot, how: Loading, tied: bool) -> Stack | None:
    """Where a tensor goes; None: it is not loaded."""
    match found.place:
        case Place.EMBEDDING:
            return parts.both if tied else parts.first
        case Place.FIRST:
            return parts.first
        case Place.HEAD:
            return None if tied else parts.last  # a stored copy of a tied head is not loaded
        case Place.LAST:
            return parts.last
        case Place.TOWER:
            return parts.first if how.towers else None
        case Place.AHEAD:
            return parts.last if how.ahead else None
        case Place.SKIP | Place.LAYER:
            return None


def _experts(tensor: Tensor, found: Spot, how: Loading, cut: int, within: str) -> Experts:
    """Experts stored one by one, or all together in a tensor whose first dimension counts them."""
    if tensor.copies > 1 or "*" in tensor.name or not tensor.shape:
        number, shape = tensor.copies, tensor.shape
    else:
        number, shape = tensor.shape[0], tensor.shape[1:]
    span = share(replace(tensor, shape=shape, copies=1), found, how, cut)
    if how.padding is not None and tensor.name.endswith(("_blocks", "_scales")) and len(shape) >= 2:
        gate_up = "gate_up" in tensor.name
        width, hidden = (shape[0] // 2, shape[1] * 32) if gate_up else (shape[1] * 32, shape[0])
        span = _padded(span, how, -(-width // cut), hidden)
    if how.scales_twice and tensor.name.endswith("_scales"):
        span = _times(span, 2)
    return Experts(number, span, within)


def _padded(span: Span, how: Loading, width: int, hidden: int) -> Span:
    """The same with its width on this rank and its hidden size padded."""

    def grown(bytes_: int, padding: Padding | None) -> int:
        if padding is None or not width or not hidden:
            return bytes_
        wide, deep = -(-width // padding.width) * padding.width, -(-hidden // padding.hidden) * padding.hidden
        return bytes_ * wide * deep // (width * hidden)

    value = grown(span.value, how.padding)
    return Span(value, span.low, max(value, grown(span.high, how.most_padding)))


def _absorb(stack: Stack, tensor: Tensor, found: Spot, how: Loading, ranks: int) -> None:
    """The unquantized copy of the latent up-projection that decoding multiplies with, in two parts."""
    if not how.absorbs or not tensor.name.endswith("kv_b_proj.weight"):
        return
    packed = 2 if dtype_on(tensor, found, how) == "U8" else 1
    shape = (*tensor.shape[:-1], tensor.shape[-1] * packed)
    plain = replace(tensor, dtype=how.dtype or "BF16", shape=shape)
    span = share(plain, found, replace(how, online=None), ranks)
    for part in ("up keys", "up values"):
        stack.add(part, Span(span.value // 2, span.low // 2, span.high // 2))
