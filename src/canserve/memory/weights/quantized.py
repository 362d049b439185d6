"""How a checkpoint stores a linear layer: plain, or quantized with its scales."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from canserve.memory.fields import Lacking
from canserve.memory.layers.text import DECODERS
from canserve.memory.weights.blocks.draft import Linear, Part, Plain
from canserve.memory.weights.cuts import Place, spot
from canserve.memory.weights.ignored import Ignored
from canserve.subjects.model import Quantization, Scheme
from canserve.subjects.tensor import Tensor

Row = tuple[str, tuple[int, ...], str]
"""Ending of the name, shape, dtype."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """A linear layer that is quantized."""

    linear: Linear
    scheme: Scheme
    dtype: str
    """The model's own."""

    @property
    def rows(self) -> int:
        """Its outputs."""
        return self.linear.outputs

    @property
    def columns(self) -> int:
        """Its inputs."""
        return self.linear.inputs


Form = Callable[[Matrix], list[Row]]
"""A quantized layer -> what is stored for it, without its bias. An empty dtype is that of block scales."""


def stored_tensors(
    parts: list[Part], quantization: Quantization | None, dtype: str, scales: str = "F32"
) -> tuple[Tensor, ...]:
    """The tensors of a checkpoint; ``scales`` is the dtype of its block scales.

    Raises Lacking for a method whose files are not known.
    """
    chosen = None if quantization is None else Choice.of(quantization, scales)
    return tuple(tensor for part in parts for tensor in _stored(part, chosen, dtype))


@dataclass(frozen=True, slots=True)
class Choice:
    """What is done to which module."""

    form: Form
    ignored: Ignored
    schemes: tuple[Scheme, ...]
    layers: Mapping[str, Scheme]
    """Modules named one by one (ModelOpt's mixed precision); empty: ``schemes`` go by their targets."""
    beneath: bool
    """Whether those lie over another quantization, which all other modules keep."""
    scales: str
    """Dtype of block scales."""
    cache: bool
    """Whether scales of the KV cache are stored."""
    decoder_only: bool = False
    """Whether the declaration stands in the decoder's config: towers are none of its business."""
    apart: bool = True
    """Whether stacked experts are stored one by one once they are quantized."""

    @classmethod
    def of(cls, quantization: Quantization, scales: str) -> Choice:
        """Raises Lacking."""
        method, field = quantization.method, quantization.source
        form = FORMS.get(method)
        if form is None:
            raise Lacking(field, f"{method}, whose stored tensors are not known")
        if not quantization.schemes:
            raise Lacking(f"{field}: the number of bits")
        layers = _listed(quantization)
        beneath = bool(layers) and method != "modelopt_mixed"
        # Over another quantization the list names what kept that one.
        left = () if beneath else quantization.ignored
        return cls(
            form=form,
            ignored=Ignored(left, f"{field}: modules left unquantized"),
            schemes=quantization.schemes,
            layers=layers,
            beneath=beneath,
            scales=scales,
            cache=quantization.kv_cache is not None and method.startswith("modelopt"),
            decoder_only=any(f" {key}." in field for key in DECODERS),
            apart=method != "mxfp4",
        )

    def of_module(self, module: str) -> tuple[Form, Scheme] | None:
        """How a module is quantized; None: not at all."""
        if self.ignored.leaves_out(module) or (self.decoder_only and spot(module).place is Place.TOWER):
            return None
        if self.layers:
            path = module.replace(".*.", ".").split(".")
            names = (".".join(path[:end]) for end in range(len(path), 0, -1))
            listed = next((self.layers[name] for name in names if name in self.layers), None)
            if listed is not None or not self.beneath:
                return None if listed is None else (_modelopt, listed)
        scheme = self._targeted(module)
        return None if scheme is None else (self.form, scheme)

    def _targeted(self, module: str) -> Scheme | None:
        """The scheme whose targets name the module, else the one for all linear layers."""
        experts = ".experts." in f".{module}."
        for scheme in self.schemes[::-1]:
            if not scheme.targets or "Linear" in scheme.targets:
                continue
            by_name = Ignored(scheme.targets, "quantization_config: targets")
            if (scheme.targets == ("experts",) and experts) or by_name.leaves_out(module):
                return scheme
        return next((each for each in self.schemes if not each.targets or "Linear" in each.targets), None)


def _listed(quantization: Quantization) -> Mapping[str, Scheme]:
    """``quantized_layers`` of ModelOpt: module -> its algorithm."""
    raw = quantization.raw
    inner = raw.get("quantization")
    layers = raw.get("quantized_layers") or (
        inner.get("quantized_layers") if isinstance(inner, Mapping) else None
    )
    if not isinstance(layers, Mapping):
        return {}
    by_name = {scheme.format: scheme for scheme in quantization.schemes}
    found = {}
    for name, entry in layers.items():
        algorithm = entry.get("quant_algo") if isinstance(entry, Mapping) else None
        scheme = by_name.get(algorithm) if isinstance(algorithm, str) else None
        if scheme is None:
            raise Lacking(f"{quantization.source}: quantized_layers.{name:.80}", algorithm)
        size = entry.get("group_size")
        found[name] = replace(scheme, group_size=size) if type(size) is int and size > 0 else scheme
    return found


def _stored(part: Part, choice: Choice | None, dtype: str) -> Iterator[Tensor]:
    if isinstance(part, Plain):
        yield Tensor(part.name, part.shape, part.dtype or dtype, part.copies)
        return
    how = choice.of_module(part.name) if choice is not None else None
    if choice is None or how is None:
        yield _plain(part, dtype)
        if part.bias:
            yield Tensor(f"{part.name}.bias", (part.outputs,), dtype, part.copies)
        return
    for linear in _apart(part) if part.experts and choice.apart else (part,):
        form, scheme = how
        for ending, shape, kind in form(Matrix(linear, scheme, dtype)):
            yield Tensor(linear.name + ending, shape, kind or choice.scales, linear.copies)
        if linear.bias:
            yield Tensor(f"{linear.name}.bias", (linear.outputs,), dtype, linear.copies)
    if choice.cache and part.name.endswith(("self_attn.k_proj", "self_attn.v_proj")):
        yield Tensor(f"{part.name}.{part.name[-6]}_scale", (), "F32")


def _plain(part: Linear, dtype: str) -> Tensor:
    if not part.experts:
        return Tensor(f"{part.name}.weight", (part.outputs, part.inputs), dtype, part.copies)
    rows = (part.inputs, part.outputs) if part.flipped else (part.outputs, part.inputs)
    return Tensor(part.name, (part.experts, *rows), dtype)


def _apart(part: Linear) -> Iterator[Linear]:
    """Stacked experts as one matrix each, gate and up apart."""
    path, _, last = part.name.removesuffix(".weight").rpartition(".")
    if not path.endswith("experts"):
        path += ".experts"
    names = ("gate_proj", "up_proj") if last == "gate_up_proj" else (last,)
    for name in names:
        yield Linear(f"{path}.*.{name}", part.outputs // len(names), part.inputs, copies=part.experts)


def _up(number: int, step: int) -> int:
    """How many steps cover a number; a step that is none counts as one."""
    return -(-number // max(step, 1))


def _fp8(matrix: Matrix) -> list[Row]:
    """Eight bits, scaled by block, by output channel or as a whole."""
    rows, columns, scheme = matrix.rows, matrix.columns, matrix.scheme
    if scheme.weight_bits == 4:  # DeepSeek V4's experts: two values in a byte, a scale for 32
        return [(".weight", (rows, columns // 2), "I8"), (".scale", (rows, _up(columns, 32)), "F8_E8M0")]
    weight: Row = (".weight", (rows, columns), "F8_E4M3")
    if scheme.block is not None:
        blocks = (_up(rows, max(scheme.block[0], 1)), _up(columns, max(scheme.block[1], 1)))
        return [weight, (".weight_scale_inv", blocks, "")]
    if scheme.strategy == "channel":
        return [weight, (".weight_scale", (rows, 1), "F32")]
    static: list[Row] = [(".input_scale", (), "F32")] if scheme.dynamic is False else []
    return [weight, (".weight_scale", (), "F32"), *static]


def _modelopt(matrix: Matrix) -> list[Row]:
    rows, columns, scheme = matrix.rows, matrix.columns, matrix.scheme
    group = scheme.group_size or 16
    name = (scheme.format or "").upper()
    if "NVFP4" in name:
        found: list[Row] = [
            (".weight", (rows, columns // 2), "U8"),
            (".weight_scale", (rows, _up(columns, group)), "F8_E4M3"),
            (".weight_scale_2", (), "F32"),
        ]
        return found if name.startswith("W4A16") else [*found, (".input_scale", (), "F32")]
    if "MXFP8" in name:
        return [(".weight", (rows, columns), "F8_E4M3"), (".weight_scale", (rows, _up(columns, 32)), "U8")]
    if scheme.weight_bits == 8 and scheme.weight_type == "float":
        if scheme.block is not None:
            blocks = (_up(rows, scheme.block[0]), 1, _up(columns, scheme.block[1]), 1)
            return [(".weight", (rows, columns), "F8_E4M3"), (".weight_scale", blocks, "F32")]
        return _fp8(matrix)
    raise Lacking("quantization_config.quant_algo", f"{name}, whose stored tensors are not known")


def _compressed(matrix: Matrix) -> list[Row]:
    rows, columns, scheme = matrix.rows, matrix.columns, matrix.scheme
    form, bits, group = scheme.format or "", scheme.weight_bits or 0, scheme.group_size or 0
    if form == "nvfp4-pack-quantized":
        found: list[Row] = [
            (".weight_packed", (rows, columns // 2), "U8"),
            (".weight_scale", (rows, _up(columns, group or 16)), "F8_E4M3"),
            (".weight_global_scale", (1,), "F32"),
        ]
        return found if scheme.activation_bits is None else [*found, (".input_global_scale", (1,), "F32")]
    if form == "mxfp4-pack-quantized":
        return [
            (".weight_packed", (rows, columns // 2), "U8"),
            (".weight_scale", (rows, _up(columns, 32)), "U8"),
        ]
    if form == "pack-quantized" and bits in {2, 4, 8}:
        groups = _up(columns, group) if group else 1
        found = [
            (".weight_packed", (rows, _up(columns * bits, 32)), "I32"),
            (".weight_scale", (rows, groups), matrix.dtype),
            (".weight_shape", (2,), "I64"),
        ]
        if scheme.symmetric is False:
            found.append((".weight_zero_point", (_up(rows * bits, 32), groups), "I32"))
        return found
    if form in {"float-quantized", "int-quantized", "naive-quantized"} and bits == 8:
        weight: Row = (".weight", (rows, columns), "F8_E4M3" if scheme.weight_type == "float" else "I8")
        if scheme.strategy == "block" and scheme.block is not None:
            blocks = (_up(rows, scheme.block[0]), _up(columns, scheme.block[1]))
            return [weight, (".weight_scale", blocks, matrix.dtype)]
        shape = {"channel": (rows, 1), "tensor": (1,)}.get(scheme.strategy or "")
        if shape is not None:
            static: list[Row] = [(".input_scale", (1,), matrix.dtype)] if scheme.dynamic is False else []
            return [weight, (".weight_scale", shape, matrix.dtype), *static]
    raise Lacking("quantization_config.format", f"{form}, {bits} bits, whose stored tensors are not known")


def _integers(matrix: Matrix, *, awq: bool) -> list[Row]:
    """GPTQ packs along inputs, AWQ along outputs; both keep inputs first."""
    rows, columns, scheme = matrix.rows, matrix.columns, matrix.scheme
    bits = scheme.weight_bits or 4
    group = scheme.group_size if scheme.group_size and scheme.group_size > 0 else columns
    groups = _up(columns, max(group, 1))
    zeros: Row = (".qzeros", (groups, _up(rows * bits, 32)), "I32")
    scales: Row = (".scales", (groups, rows), "F16")
    if awq:
        return [(".qweight", (columns, _up(rows * bits, 32)), "I32"), zeros, scales]
    return [
        (".qweight", (_up(columns * bits, 32), rows), "I32"),
        zeros,
        scales,
        (".g_idx", (columns,), "I32"),
    ]


def _gptq(matrix: Matrix) -> list[Row]:
    return _integers(matrix, awq=False)


def _awq(matrix: Matrix) -> list[Row]:
    return _integers(matrix, awq=True)


def _mxfp4(matrix: Matrix) -> list[Row]:
    """Experts of all kinds in one tensor: blocks of 16 bytes for 32 values, and their scales."""
    if not matrix.linear.experts:
        return [(".weight", (matrix.rows, matrix.columns), matrix.dtype)]
    blocks = (matrix.linear.experts, matrix.rows, _up(matrix.columns, 32))
    return [("_blocks", (*blocks, 16), "U8"), ("_scales", blocks, "U8")]


def _bitsandbytes(matrix: Matrix) -> list[Row]:
    """Four bits: absolute maxima of 64 values, themselves quantized in blocks of 256; eight: one for a row."""
    rows, columns = matrix.rows, matrix.columns
    count = rows * columns
    if matrix.scheme.weight_bits == 8:
        return [(".weight", (rows, columns), "I8"), (".SCB", (rows,), "F32")]
    return [
        (".weight", (_up(count, 2), 1), "U8"),
        (".weight.absmax", (_up(count, 64),), "U8"),
        (".weight.nested_absmax", (_up(_up(count, 64), 256),), "F32"),
        (".weight.nested_quant_map", (256,), "F32"),
        (".weight.quant_map", (16,), "F32"),
    ]


FORMS: Mapping[str, Form] = {
    "fp8": _fp8,
    "fbgemm_fp8": _fp8,
    "modelopt": _modelopt,
    "modelopt_fp4": _modelopt,
    "modelopt_mixed": _modelopt,
    "modelopt_mxfp8": _modelopt,
    "compressed-tensors": _compressed,
    "gptq": _gptq,
    "awq": _awq,
    "mxfp4": _mxfp4,
    "bitsandbytes": _bitsandbytes,
}
"""Methods whose files are known, as ``Quantization.method`` names them."""
