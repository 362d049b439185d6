"""Bytes of weights on each rank of a layout."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from canserve.memory.quantity import Quantity
from canserve.memory.weights.cuts import NOTHING, Place, Span, Spot, dtype_on, share, spot
from canserve.memory.weights.loading import Loading
from canserve.rules.weights import margin
from canserve.subjects.parallel import Parallel, Placement, Rank
from canserve.subjects.tensor import Tensor, size


@dataclass(frozen=True, slots=True)
class Experts:
    """The routed experts of one layer on a rank that holds one of them (or its slice of one)."""

    number: int
    each: Span


@dataclass(slots=True)
class Parts:
    """What ranks of one tensor parallel position hold, by where it lies."""

    layers: dict[int, Span]
    experts: dict[int, tuple[Experts, ...]]
    first: Span = NOTHING
    """Embedding."""
    last: Span = NOTHING
    """Output head, final norm and layers that predict ahead."""
    both: Span = NOTHING
    """The embedding where it serves as head too: once on a stage that is first, last or both."""
    towers: Span = NOTHING
    ahead: tuple[Experts, ...] = ()


def rank_weights(tensors: tuple[Tensor, ...], how: Loading, placement: Placement) -> tuple[Quantity, ...]:
    """Bytes of weights on every rank, in the order of ``placement.ranks``.

    Layers are dealt to pipeline stages by ``placement.layers``; the embedding lies on the first stage, final
    norm and head on the last, a tied embedding on both ends, towers on the first. Routed experts are spread
    over ``parallel.ep`` ranks (the first ranks hold one more where they do not divide) and cut over the rest.
    """
    parts = _parts(tensors, how, placement.parallel)
    edges = _edges(placement)
    remembered: dict[tuple[int, int], Quantity] = {}
    out = []
    for rank in placement.ranks:
        position = _expert_position(rank, how, placement.parallel)
        key = (rank.pp, position)
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


def _degrees(how: Loading, parallel: Parallel) -> tuple[int, int]:
    """Over how many ranks experts are spread, and over how many each is cut."""
    ranks = parallel.tp * (parallel.dp if how.across_replicas else 1)
    spread = max(1, min(parallel.ep, ranks))
    return spread, max(1, ranks // spread)


def _expert_position(rank: Rank, how: Loading, parallel: Parallel) -> int:
    spread, cut = _degrees(how, parallel)
    index = rank.dp * parallel.tp + rank.tp if how.across_replicas else rank.tp
    return min(index // cut, spread - 1)


def _rank(parts: Parts, how: Loading, placement: Placement, layers: range, key: tuple[int, int]) -> Quantity:
    """One rank: ``key`` is its stage and which share of the experts it holds."""
    stage, position = key
    spread, _ = _degrees(how, placement.parallel)
    is_first, is_last = stage == 0, stage == len(placement.layers) - 1
    total = Span(how.buffers, how.buffers, how.buffers)
    experts: list[Experts] = []
    for number in layers:
        total = total.plus(parts.layers.get(number, NOTHING))
        experts.extend(parts.experts.get(number, ()))
    if is_first:
        total = total.plus(parts.first).plus(parts.towers)
    if is_last:
        total = total.plus(parts.last)
        experts.extend(parts.ahead)
    if is_first or is_last:
        total = total.plus(parts.both)
    for each in experts:
        total = total.plus(_times(each.each, _held(each.number, spread, position)))
    return _quantity(total, len(layers))


def _held(number: int, spread: int, position: int) -> int:
    """How many of the experts a rank holds: the first ones take what is left over."""
    return number // spread + (position < number % spread)


def _times(span: Span, count: int) -> Span:
    return Span(span.value * count, span.low * count, span.high * count)


def _quantity(total: Span, layers: int) -> Quantity:
    bounds = margin()
    low = max(0.0, total.low * (1 - bounds.below) - bounds.bytes)
    high = total.high * (1 + bounds.above) + bounds.bytes
    return Quantity(total.value, low, high, f"tensors of {layers} layers as the engine cuts them")


@lru_cache(maxsize=64)
def _parts(tensors: tuple[Tensor, ...], how: Loading, parallel: Parallel) -> Parts:
    """Add the tensors up. The degrees that matter are few: layouts of many machines share them."""
    _, cut = _degrees(how, parallel)
    has_head = any(spot(tensor.name, how.depth).place is Place.HEAD for tensor in tensors)
    tied = how.tied or not has_head
    parts = Parts({}, {})
    for tensor in tensors:
        found = spot(tensor.name, how.depth)
        if found.experts and found.place in {Place.LAYER, Place.AHEAD}:
            _add_experts(parts, tensor, found, how, cut)
        else:
            one = _times(share(tensor, found, how, parallel.tp), tensor.copies)
            _add(parts, found, how, one.plus(_absorbed(tensor, found, how, parallel.tp)), tied)
    return parts


def _add(parts: Parts, found: Spot, how: Loading, span: Span, tied: bool) -> None:
    match found.place:
        case Place.LAYER:
            parts.layers[found.layer] = parts.layers.get(found.layer, NOTHING).plus(span)
        case Place.EMBEDDING if tied and found.cut == "unsure":
            parts.both = parts.both.plus(span)
        case Place.EMBEDDING:
            parts.first = parts.first.plus(span)
        case Place.HEAD if tied:
            pass  # a stored copy of a tied head is not loaded
        case Place.HEAD | Place.LAST:
            parts.last = parts.last.plus(span)
        case Place.TOWER if how.towers:
            parts.towers = parts.towers.plus(span)
        case Place.AHEAD if how.ahead:
            parts.last = parts.last.plus(span)
        case _:
            pass


def _add_experts(parts: Parts, tensor: Tensor, found: Spot, how: Loading, cut: int) -> None:
    """Experts stored one by one, or all together in a tensor whose first dimension counts them."""
    if tensor.copies > 1 or "*" in tensor.name:
        number, one = tensor.copies, Tensor(tensor.name, tensor.shape, tensor.dtype)
    elif tensor.shape:
        number, one = tensor.shape[0], Tensor(tensor.name, tensor.shape[1:], tensor.dtype)
    else:
        number, one = 1, tensor
    each = Experts(number, share(one, found, how, cut))
    if found.place is Place.LAYER:
        parts.experts[found.layer] = (*parts.experts.get(found.layer, ()), each)
    elif how.ahead:
        parts.ahead = (*parts.ahead, each)


def _absorbed(tensor: Tensor, found: Spot, how: Loading, ranks: int) -> Span:
    """The unquantized copy of the latent up-projection that decoding multiplies with."""
    if not how.absorbs or not tensor.name.endswith("kv_b_proj.weight"):
        return NOTHING
    plain = replace(tensor, dtype=how.dtype or "BF16")
    if dtype_on(tensor, found, how) == "U8":  # two values in a byte
        plain = replace(plain, shape=(*plain.shape[:-1], plain.shape[-1] * 2))
    return share(plain, found, replace(how, online=None), ranks)


def whole_bytes(tensors: tuple[Tensor, ...]) -> int:
    """Bytes of all tensors as they are stored."""
    return sum(size(tensor.shape, tensor.dtype) * tensor.copies for tensor in tensors)
