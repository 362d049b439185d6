"""What one step moves and computes on one rank of a pipeline stage: bytes read, operations, kernels, messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import log, prod, sqrt

from canserve.memory.layers.kinds import Attention, Compressed, Experts, Latent, Layer, Recurrence, Recurrent
from canserve.memory.weights.cuts import Place, Spot, share, spots
from canserve.memory.weights.loading import Loading
from canserve.memory.weights.sharding import alike_layers
from canserve.subjects.parallel import Placement
from canserve.subjects.tensor import Tensor

KERNELS = {"attention": 7, "latent": 13, "dense": 4, "experts": 9, "shared": 4, "recurrent": 8}
"""Kernels of one part of a layer in a captured graph, norm included: a dense layer has about eleven (norm, QKV,
rotary embedding, cache write, attention, its reduction, output; norm, gate and up, activation, down)."""
SCALES = ("scale", "scales", "scale_inv", "zeros", "qzeros", "zero_point", "g_idx", "absmax")


@dataclass(frozen=True, slots=True)
class Pool:
    """The routed experts of some layers on one rank."""

    number: int
    """Experts of one layer, over all ranks."""
    per_token: int
    spread: int
    """Over how many ranks whole experts are spread."""
    bytes: float
    """Of one expert of every layer, the slice that this rank holds."""
    parameters: float

    def read(self, tokens: float) -> float:
        """Bytes read for so many tokens on the rank that has most to read, if tokens choose evenly."""
        chosen: float = self.number * (1 - (1 - self.per_token / self.number) ** tokens)
        mean = chosen / self.spread
        # Balls in bins: where experts are spread, everybody waits for the rank with the most of those chosen.
        most = mean + sqrt(2 * mean * log(self.spread)) if self.spread > 1 else mean
        return self.bytes * min(most, chosen, self.number / self.spread)


@dataclass(frozen=True, slots=True)
class Traffic:
    """One stage on one of its ranks."""

    bytes: float
    """Weights that every step reads."""
    parameters: float
    """That every token is multiplied with, without routed experts."""
    pools: tuple[Pool, ...]
    kinds: tuple[tuple[Layer, int], ...]
    """One layer of each kind, and how many there are of it."""
    tp: int
    hidden: int

    def weights(self, tokens: float) -> float:
        """Bytes of weights read by a step of so many tokens."""
        return self.bytes + sum(pool.read(tokens) for pool in self.pools)

    @property
    def active(self) -> float:
        """Parameters one token is multiplied with on this rank, on average."""
        return self.parameters + sum(pool.parameters * pool.per_token / pool.spread for pool in self.pools)

    def cache(self, context: float, width: float) -> float:
        """Bytes of keys, values and state that one sequence of ``context`` tokens makes a step read."""
        return sum(
            count * _cache(mixer, context, width, self.tp)
            for layer, count in self.kinds
            for mixer in layer.mixers
        )

    def scores(self, context: float) -> float:
        """Operations of attention itself for one token that sees ``context`` others."""
        each = (count * _scores(mixer, context) for layer, count in self.kinds for mixer in layer.mixers)
        return sum(each) / self.tp

    @property
    def kernels(self) -> int:
        """Kernels of one step."""
        return sum(count * _kernels(layer) for layer, count in self.kinds) + 4

    @property
    def reductions(self) -> int:
        """All-reduces of one step over the tensor parallel ranks: one after each part of a layer."""
        return sum(count * (bool(layer.mixers) + bool(layer.mlps)) for layer, count in self.kinds) + 1

    @property
    def exchanges(self) -> int:
        """All-to-all pairs of one step where experts are spread over data parallel replicas."""
        spread = (count for layer, count in self.kinds if any(isinstance(mlp, Experts) for mlp in layer.mlps))
        return 2 * sum(spread)


def traffic(
    tensors: tuple[Tensor, ...], how: Loading, placement: Placement, hidden: int
) -> tuple[Traffic, ...]:
    """One traffic a pipeline stage, first to last."""
    parallel = placement.parallel
    ranks = parallel.tp * (parallel.dp if how.across_replicas or parallel.ep > 1 else 1)
    spread = max(1, min(parallel.ep, ranks))
    sums = _sums(tensors, how, parallel.tp, max(1, ranks // spread))
    found, at = [], 0
    for stage, count in enumerate(placement.layers):
        numbers = range(at, at + count)
        at += count
        last = stage == len(placement.layers) - 1
        fixed = sum(sums.bytes.get(number, 0.0) for number in numbers) + (sums.head[0] if last else 0.0)
        params = sum(sums.parameters.get(number, 0.0) for number in numbers) + (sums.head[1] if last else 0.0)
        layers = tuple(how.layers[number] for number in numbers)
        pools = _pools(sums, layers, spread)
        found.append(Traffic(fixed, params, pools, _kinds(layers), parallel.tp, hidden))
    return tuple(found)


def _kinds(layers: Sequence[Layer]) -> tuple[tuple[Layer, int], ...]:
    """One layer of each kind, and how many there are of it."""
    found: dict[tuple[object, object], tuple[Layer, int]] = {}
    for layer in layers:
        first, count = found.get((layer.mixers, layer.mlps), (layer, 0))
        found[layer.mixers, layer.mlps] = (first, count + 1)
    return tuple(found.values())


@dataclass(slots=True)
class Sums:
    """Bytes and parameters of one rank by layer; of one expert where they are routed."""

    bytes: dict[int, float]
    parameters: dict[int, float]
    experts: dict[int, tuple[float, float]]
    head: tuple[float, float] = (0.0, 0.0)


@lru_cache(maxsize=64)
def _sums(tensors: tuple[Tensor, ...], how: Loading, tp: int, cut: int) -> Sums:
    found = Sums({}, {}, {})
    for numbers, members in alike_layers(tensors, how.layers):
        size = parameters = 0.0
        experts: list[tuple[float, float]] = []
        for tensor, at in members:
            if at.experts:
                experts.append(_expert(tensor, at, how, cut))
                continue
            one = float(share(tensor, at, how, tp).value * tensor.copies)
            size += one
            parameters += _parameters(tensor) * one / max(tensor.bytes, 1)
        found.bytes.update(dict.fromkeys(numbers, size))
        found.parameters.update(dict.fromkeys(numbers, parameters))
        if experts:
            both = (sum(each[0] for each in experts), sum(each[1] for each in experts))
            found.experts.update(dict.fromkeys(numbers, both))
    found.head = _head(tensors, how, tp)
    return found


def _head(tensors: tuple[Tensor, ...], how: Loading, tp: int) -> tuple[float, float]:
    """Bytes and parameters of the output head; of the embedding where that is the head."""
    head = embedding = (0.0, 0.0)
    for tensor, at in zip(tensors, spots(tensors), strict=True):
        if at.place not in {Place.HEAD, Place.EMBEDDING}:
            continue
        size = float(share(tensor, at, how, tp).value * tensor.copies)
        parameters = _parameters(tensor) * size / max(tensor.bytes, 1)
        if at.place is Place.HEAD:
            head = (head[0] + size, head[1] + parameters)
        elif len(tensor.shape) == 2 and size > embedding[0]:
            embedding = (size, parameters)
    return embedding if how.tied or not head[0] else head  # read whole for every step


def _expert(tensor: Tensor, at: Spot, how: Loading, cut: int) -> tuple[float, float]:
    """One expert's slice of a tensor; experts are stored one by one or all together in one tensor."""
    one, number = replace(tensor, copies=1), tensor.copies
    if number == 1 and "*" not in tensor.name and len(tensor.shape) > 1:
        one = replace(one, shape=tensor.shape[1:])
    size = float(share(one, at, how, cut).value)
    return size, _parameters(one) * size / max(one.bytes, 1)


def _parameters(tensor: Tensor) -> float:
    """Weights of a matrix: packed ones unpacked, scales and vectors not counted."""
    name = tensor.name.rsplit(".", 1)[-1]
    if len(tensor.shape) < 2 or any(word in name for word in SCALES):
        return 0.0
    packed = {"U8": 2, "I32": 8, "F4": 1}.get(tensor.dtype, 1)
    return float(prod(tensor.shape) * packed)


def _pools(sums: Sums, layers: Sequence[Layer], spread: int) -> tuple[Pool, ...]:
    found: dict[tuple[int, int], tuple[float, float]] = {}
    for layer in layers:
        for mlp in layer.mlps:
            if isinstance(mlp, Experts) and layer.number in sums.experts:
                size, parameters = sums.experts[layer.number]
                before = found.get((mlp.number, mlp.per_token), (0.0, 0.0))
                found[mlp.number, mlp.per_token] = (before[0] + size, before[1] + parameters)
    return tuple(Pool(number, min(k, number), spread, *each) for (number, k), each in found.items())


def _cache(mixer: object, context: float, width: float, tp: int) -> float:
    match mixer:
        case Attention():
            seen = min(context, mixer.window) if mixer.window else context
            heads = max(1.0, mixer.kv_heads / tp)
            return heads * (mixer.head_dim + mixer.v_head_dim) * width * seen
        case Latent():
            return (mixer.kv_rank + mixer.rope_dim) * width * context
        case Compressed():
            rows = min(context, mixer.window) + (context / mixer.ratio if mixer.ratio else 0)
            return mixer.head_dim * width * rows
        case Recurrent():
            return 2 * 4 * mixer.heads * mixer.head_dim * mixer.state_dim / tp  # read and written, in F32
        case _:
            return 0.0


def _scores(mixer: object, context: float) -> float:
    match mixer:
        case Attention():
            seen = min(context, mixer.window) if mixer.window else context
            return 2 * mixer.heads * (mixer.head_dim + mixer.v_head_dim) * seen
        case Latent():
            return 2 * mixer.heads * (mixer.nope_dim + mixer.rope_dim + mixer.v_head_dim) * context
        case Compressed():
            rows = min(context, mixer.window) + (context / mixer.ratio if mixer.ratio else 0)
            return 4 * mixer.heads * mixer.head_dim * rows
        case Recurrent():
            return 6 * mixer.heads * mixer.head_dim * mixer.state_dim
        case _:
            return 0.0


def _kernels(layer: Layer) -> int:
    count = 0
    for mixer in layer.mixers:
        match mixer:
            case Attention():
                count += KERNELS["attention"]
            case Latent() | Compressed():
                count += KERNELS["latent"]
            case Recurrent(kind=kind):
                count += (
                    KERNELS["recurrent"] - (kind is not Recurrence.GDN and kind is not Recurrence.KDA) * 2
                )
    for mlp in layer.mlps:
        if isinstance(mlp, Experts):
            count += KERNELS["experts"] + (KERNELS["shared"] if mlp.shared_width else 0)
        else:
            count += KERNELS["dense"]
    return count
