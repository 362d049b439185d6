"""The quantized matrices of a model, by their logical sizes, and what one rank gets of each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from canserve.facts import Fact, Known, Missing, derive
from canserve.memory.layers import layers
from canserve.memory.layers.kinds import Attention, Layer
from canserve.memory.weights.cuts import Place, Spot, layers_ahead, spot
from canserve.memory.weights.stored import stored, tensors_of
from canserve.subjects.model import Model, Quantization, Scheme
from canserve.subjects.tensor import Tensor

EIGHT_BITS = ("F8_E4M3", "F8_E5M2", "I8")
_MLP = re.compile(r"(gate_proj|up_proj|down_proj|gate_up_proj|w[123]|fc\d|c_fc|dense_\w+)\.[\w]+$")
_MERGED = re.compile(r"\.([qkv]|qkv|gate|up|gate_up|in)_proj\w*\.\w+$|\.w[13]\.\w+$")
_NUMBERS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Cuts:
    """Into how many slices attention, dense MLPs and routed experts are cut."""

    attention: int
    dense: int
    experts: int


@dataclass(frozen=True, slots=True)
class Matrix:
    """One kind of quantized matrix; layers that have the same count once."""

    name: str
    """Numbers as ``#``."""
    outputs: int
    inputs: int
    cut: str
    """As ``memory.weights.cuts`` names it."""
    part: str
    """``experts``, ``mlp`` or ``attention``."""
    bits: int
    stored: bool = True
    """Whether the weights' headers say so; False: the config implies it, which may be wrong about one of them."""
    kv_heads: int = 0
    """Of the layer it lies in, where keys or values come out of it."""

    @property
    def merged(self) -> bool:
        """Whether engines make one matrix of it and others: Q, K and V, or gate and up."""
        return _MERGED.search(self.name) is not None

    def slices(self, cuts: Cuts) -> Iterator[Slice]:
        """What one rank gets: how many outputs, how many inputs."""
        ranks = {"experts": cuts.experts, "mlp": cuts.dense}.get(self.part, cuts.attention)
        if ranks == 1:
            return
        if self.cut == "column":
            halves = 2 if "gate_up" in self.name else 1
            yield Slice(self, "outputs", self.outputs // halves // ranks)
        elif self.cut == "row":
            yield Slice(self, "inputs", self.inputs // ranks)
        elif self.cut == "kv" and self.kv_heads:
            yield Slice(self, "outputs", self.outputs // min(ranks, self.kv_heads))


@dataclass(frozen=True, slots=True)
class Slice:
    """One rank's share of a matrix along one direction."""

    of: Matrix
    along: str
    size: int

    def __str__(self) -> str:
        name = re.sub(r"\.(weight|weight_packed|qweight)$|_blocks$", "", self.of.name).rsplit(".", 2)
        whose = "an expert's " if self.of.part == "experts" else f"{name[-2]}." if len(name) > 1 else ""
        return f"{whose}{name[-1]} leaves {self.size} {self.along} a rank"


def matrices(model: Model) -> Fact[tuple[Matrix, ...]]:
    """The quantized matrices of the decoder: from the weights' headers, else as the config implies."""
    quantization = model.quantization
    if isinstance(quantization, Missing):
        return quantization
    if quantization.value is None:
        return Known((), quantization.evidence)
    quantized = quantization.value
    found = derive(tensors_of(model, towers=False), lambda tensors: _read(tensors, quantized, model))
    if isinstance(stored(model), Known):
        return found
    return derive(found, lambda each: tuple(replace(matrix, stored=False) for matrix in each))


def _read(tensors: tuple[Tensor, ...], quantization: Quantization, model: Model) -> tuple[Matrix, ...]:
    known = layers(model)
    decoder = known.value if isinstance(known, Known) else ()
    seen: dict[Matrix, None] = {}
    ahead = layers_ahead(tensor.name for tensor in tensors)
    for tensor in tensors:
        matrix = _matrix(tensor, spot(tensor.name, ahead), quantization, decoder)
        if matrix is not None:
            seen[matrix] = None
    return tuple(seen)


def _matrix(
    tensor: Tensor, found: Spot, quantization: Quantization, decoder: tuple[Layer, ...]
) -> Matrix | None:
    if found.place is not Place.LAYER or found.cut in {"whole", "unsure"}:
        return None
    sizes = _sizes(tensor, quantization, found.experts)
    if sizes is None:
        return None
    outputs, inputs, bits = sizes
    name = _NUMBERS.sub("#", tensor.name)
    part = "experts" if found.experts else "mlp" if _MLP.search(tensor.name) else "attention"
    heads = 0
    if 0 <= found.layer < len(decoder):
        mixers = decoder[found.layer].mixers
        heads = next((mixer.kv_heads for mixer in mixers if isinstance(mixer, Attention)), 0)
    return Matrix(name, outputs, inputs, found.cut, part, bits, kv_heads=heads if found.cut == "kv" else 0)


def _sizes(tensor: Tensor, quantization: Quantization, experts: bool) -> tuple[int, int, int] | None:
    """Outputs, inputs and bits of a quantized matrix; None: the tensor is none."""
    shape, name = tensor.shape, tensor.name.rsplit(".", 1)[-1]
    if name.endswith("_blocks") and len(shape) == 4:
        return shape[1], shape[2] * 2 * shape[3], 4
    if experts and len(shape) == 3 and tensor.copies == 1:
        shape = shape[1:]
    if len(shape) != 2:
        return None
    bits = _bits(quantization)
    match name, tensor.dtype:
        case "weight", dtype if dtype in EIGHT_BITS:
            return shape[0], shape[1], 8
        case (("weight" | "weight_packed"), "U8"):
            return shape[0], shape[1] * 2, 4
        case "weight_packed", "I32":
            return shape[0], shape[1] * (32 // bits), bits
        case "qweight", "I32" if "awq" in quantization.method:
            return shape[1] * (32 // bits), shape[0], bits
        case "qweight", "I32":
            return shape[1], shape[0] * (32 // bits), bits
        case _:
            return None


def _bits(quantization: Quantization) -> int:
    return next((s.weight_bits for s in quantization.schemes if s.weight_bits in (2, 4, 8)), 4)


def scheme_of(matrix: Matrix, quantization: Quantization) -> Scheme | None:
    """The way of storing weights that a matrix has, by its bits; None: not told."""
    schemes = quantization.schemes
    if len(schemes) == 1:
        return schemes[0]
    return next((scheme for scheme in schemes if scheme.weight_bits == matrix.bits), None)
