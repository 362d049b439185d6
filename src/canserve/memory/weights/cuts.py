"""One tensor on one rank: where it lies in the model, how it is cut, and how many bytes are left of it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from math import prod

from canserve.memory.layers.kinds import Attention, Compressed, Layer, Recurrence, Recurrent
from canserve.memory.weights.loading import Loading
from canserve.rules.weights import cuts, first, held, held_in, places
from canserve.subjects.tensor import BITS, Tensor, size

_NUMBER = re.compile(r"(?<=\.)\d+(?=\.|$)")
_LAYER = re.compile(r"(?:^|\.)(?:layers|layer|h|blocks|block|blk)\.(\d{1,5})\.")
_JOINS = re.compile(r"^(?:(?!mtp|nextn)\w+\.)*layers\.(\d{1,5})\.(?:eh_proj|enorm|hnorm|shared_head|nextn)\b")
_COPIES = re.compile(r"\.(?:embed_tokens|shared_head\.head)\.weight$")
"""What layers that predict ahead bring along of the embedding and the head."""
_EXPERTS = re.compile(
    r"experts\.\*\.|\.experts\.(?!\d)\w+|\.moe\.\w+_proj\.|_exps\.|block_sparse_moe\.(in|out)put_linear"
)
_FLIPPED = re.compile(r"\.(qweight|qzeros|scales|q_perm)$")
"""Parameters of GPTQ and AWQ, stored with inputs first."""


class Place(StrEnum):
    """Where a tensor lies."""

    LAYER = "layer"
    FIRST = "first"
    """Before the first layer, beside the embedding."""
    EMBEDDING = "embedding"
    HEAD = "head"
    LAST = "last"
    """After the last layer: the final norm."""
    TOWER = "tower"
    AHEAD = "ahead"
    SKIP = "skip"
    """Not loaded."""


@dataclass(frozen=True, slots=True)
class Spot:
    """What a tensor's name says."""

    place: Place
    layer: int
    """Number of the decoder layer; -1 elsewhere."""
    cut: str
    """Of ``rules.weights.CUTS``; ``unsure``: no rule names it."""
    experts: bool
    """Whether it belongs to routed experts."""
    within: str = ""
    """Name of the allocation that holds it, without numbers: fused with others or its own."""
    held: str | None = None
    """The dtype it is held in whatever the model's is."""


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes, and the interval they lie in."""

    value: int
    low: int
    high: int

    def plus(self, other: Span) -> Span:
        """The sum."""
        return Span(self.value + other.value, self.low + other.low, self.high + other.high)


NOTHING = Span(0, 0, 0)


def layers_ahead(names: Iterable[str]) -> frozenset[int]:
    """Numbers of layers that follow the decoder's and predict ahead: what joins them to it tells them."""
    return frozenset(int(found[1]) for name in names if (found := _JOINS.search(name)))


def spot(name: str, ahead_layers: frozenset[int] = frozenset()) -> Spot:
    """Read a tensor's name. Layers of those numbers predict ahead."""
    found = _LAYER.search(name)
    number = int(found[1]) if found else -1
    ahead = number in ahead_layers
    known = _known(_NUMBER.sub("#", name), found is not None, ahead)
    return known if known.place is not Place.LAYER else replace(known, layer=number)


@lru_cache(maxsize=8)
def spots(tensors: tuple[Tensor, ...]) -> tuple[Spot, ...]:
    """The spot of each tensor of a checkpoint."""
    ahead = layers_ahead(tensor.name for tensor in tensors)
    return tuple(spot(tensor.name, ahead) for tensor in tensors)


@lru_cache(maxsize=20_000)
def _known(name: str, numbered: bool, ahead: bool) -> Spot:
    """The same for a name without its numbers: few are different, and each is asked for in every layer."""
    place = Place(first(places(), name) or Place.LAYER)
    cut = first(cuts(), name) or "unsure"
    if place is Place.LAYER and not numbered:
        place = Place.LAST if cut == "whole" else Place.FIRST
    elif place not in {Place.TOWER, Place.AHEAD, Place.SKIP} and numbered:
        place = Place.AHEAD if ahead else Place.LAYER
    return Spot(place, -1, cut, bool(_EXPERTS.search(name)), held_in(name), first(held(), name))


def dtype_on(tensor: Tensor, found: Spot, how: Loading) -> str:
    """The dtype in which an engine holds it."""
    name = tensor.name
    if found.held is not None:
        return found.held
    if tensor.dtype not in {"F64", "F32", "BF16", "F16"} or "scale" in name.rsplit(".", 1)[-1]:
        return tensor.dtype
    linear = found.place is Place.LAYER and found.cut != "whole" and len(tensor.shape) > 1
    if how.online is not None and linear and "conv" not in name:
        return how.online
    return how.dtype or tensor.dtype


def share(tensor: Tensor, found: Spot, how: Loading, ranks: int) -> Span:
    """Bytes of one copy that one of ``ranks`` tensor parallel ranks holds."""
    dtype = dtype_on(tensor, found, how)
    shape = tensor.shape
    whole = _size(shape, dtype)
    copied = found.place is Place.AHEAD and _COPIES.search(tensor.name) is not None
    if (copied or found.place in {Place.EMBEDDING, Place.HEAD}) and len(shape) == 2:
        rows = -(-shape[0] // how.vocabulary) * how.vocabulary
        cut = _size((-(-rows // ranks), shape[1]), dtype)
        return (
            Span(0, 0, cut) if copied else _exact(cut)
        )  # engines share what is the same, where it is at hand
    if ranks == 1 or found.cut == "whole" or (found.place is Place.TOWER and how.whole_towers):
        return _exact(whole)
    layer = how.layers[found.layer] if 0 <= found.layer < len(how.layers) else None
    match found.cut:
        case "column":
            return _exact(_cut(tensor, dtype, ranks, 0))
        case "row":
            return _exact(_cut(tensor, dtype, ranks, 1))
        case "kv" | "qkv" | "groups" if found.place is not Place.LAYER or layer is not None:
            return _exact(_sum_of_pieces(tensor, dtype, ranks, _pieces(found.cut, layer, shape)))
        case "unsure" if len(shape) < 2:
            return _exact(whole)
        case _:
            return Span(whole // ranks if found.cut != "unsure" else whole, whole // ranks, whole)


def _exact(value: int) -> Span:
    return Span(value, value, value)


def _size(shape: tuple[int, ...], dtype: str) -> int:
    """Bytes, for a part of a tensor too; a part of a block counts in proportion."""
    return prod(shape) * BITS[dtype] // 8 if dtype in BITS else size(shape, dtype)


def _cut(tensor: Tensor, dtype: str, ranks: int, dimension: int) -> int:
    """Cut along outputs (0) or inputs (1); a bias has no inputs, three dimensions are all experts together."""
    shape = tensor.shape
    if _FLIPPED.search(tensor.name) and len(shape) == 2:
        dimension = 1 - dimension
    if len(shape) > 2:
        conv = "conv" in tensor.name
        return -(-_size(shape, dtype) // ranks) if not conv or dimension == 0 else _size(shape, dtype)
    if dimension >= len(shape):
        return _size(shape, dtype)
    cut = tuple(-(-n // ranks) if at == dimension else n for at, n in enumerate(shape))
    return _size(cut, dtype)


def _pieces(cut: str, layer: Layer | None, shape: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Rows that are cut together, and into how many parts at most: ``((4096, 32), (1024, 8), (1024, 8))``.

    Towers and layers whose mixer is not known have as many key heads as query heads.
    """
    rows = shape[0] if shape else 1
    if layer is None:
        return ((rows, rows),)
    for mixer in layer.mixers:
        match mixer:
            case Attention() if cut != "groups":
                keys = mixer.kv_heads
                if cut == "kv":
                    return ((rows, keys),)
                return ((mixer.heads * (1 + mixer.gated), mixer.heads), (keys, keys), (keys, keys))
            case Compressed():
                return ((rows, 1),)
            case Recurrent(kind=Recurrence.MAMBA2) if cut == "groups":
                inner, states = mixer.heads * mixer.head_dim, mixer.key_heads * mixer.state_dim
                heads = mixer.heads
                parts = ((inner, heads), (states, mixer.key_heads), (states, mixer.key_heads))
                projected = ((inner, heads), *parts, (heads, heads))
                return projected if rows == sum(part for part, _ in projected) else parts
            case _:
                pass
    return ((rows, rows),)


def _sum_of_pieces(tensor: Tensor, dtype: str, ranks: int, pieces: tuple[tuple[int, int], ...]) -> int:
    """Each piece is cut over the ranks, or over as many of them as it has heads and then repeated."""
    total = max(sum(rows for rows, _ in pieces), 1)
    whole = _size(tensor.shape, dtype)
    return sum(-(-whole * rows // (total * max(1, min(ranks, heads)))) for rows, heads in pieces)
