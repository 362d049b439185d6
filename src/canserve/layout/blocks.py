"""Constraint on quantized weights: no rank gets a part of a block, or of a group, that has one scale."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import gcd

from canserve.facts import Fact, Known, Missing
from canserve.layout.degrees import dense_slices, expert_slices
from canserve.layout.question import Question
from canserve.layout.ruling import Constraint, Ruling, missing, no, unknown, yes
from canserve.layout.shape import Shape
from canserve.layout.width import SPREAD
from canserve.memory.layers.kinds import Attention
from canserve.rules.table import Row
from canserve.subjects.model import Quantization
from canserve.subjects.parallel import Parallel


@dataclass(frozen=True, slots=True)
class Unit:
    """What has one scale: so many elements along the outputs and along the inputs of a matrix."""

    form: str
    """``block``: in both directions. ``group``: along the inputs only."""
    outputs: int
    inputs: int

    def __str__(self) -> str:
        return (
            f"blocks of {self.outputs} x {self.inputs}"
            if self.form == "block"
            else f"groups of {self.inputs}"
        )


@dataclass(frozen=True, slots=True)
class Slice:
    """One rank's share of a dimension."""

    what: str
    size: int
    along: str
    """``outputs``, ``inputs`` or both, joined by ``+``."""
    part: str
    """``experts`` or ``linear``."""


def units(quantization: Quantization) -> tuple[Unit, ...]:
    """The blocks or groups that a checkpoint's schemes use; empty: scales of whole rows or matrices."""
    found = []
    for scheme in quantization.schemes:
        if scheme.block is not None:
            found.append(Unit("block", *scheme.block))
        elif scheme.group_size is not None and scheme.group_size > 0:
            found.append(Unit("group", 1, scheme.group_size))
    return tuple(dict.fromkeys(found))


def _divide(question: Question, parallel: Parallel) -> Ruling | None:
    quantization = question.model.quantization
    if isinstance(quantization, Missing):
        return missing(quantization)
    if quantization.value is None or not (found := units(quantization.value)):
        return None
    shape = question.shape
    if isinstance(shape, Missing):
        return missing(shape)
    dense, experts = dense_slices(question, parallel), expert_slices(question, parallel)
    if isinstance(dense, Missing):
        return missing(dense)
    if isinstance(experts, Missing):
        return missing(experts)
    cuts = Cuts(parallel.tp, dense.value, experts.value)
    slices = tuple(_slices(shape.value, cuts, quantization.value))
    doubt: Ruling | None = None
    for unit in found:
        for piece in slices:
            ruling = _judge(question, unit, piece)
            if ruling is None:
                continue
            if ruling.heals or not _is_unknown(ruling):
                return ruling
            doubt = doubt or ruling
    whole = " and ".join(str(unit) for unit in found)
    return doubt or yes(f"no slice cuts through {whole}", quantization, shape)


@dataclass(frozen=True, slots=True)
class Cuts:
    """Into how many slices attention, dense MLPs and experts are cut."""

    attention: int
    dense: int
    experts: int


def _slices(shape: Shape, cuts: Cuts, quantization: Quantization) -> Iterator[Slice]:
    """Every rank's shares of what is quantized and cut. What the checkpoint may leave out is not judged."""
    if cuts.experts > 1 and not _left_out(quantization, "expert"):
        for width in sorted({experts.width for experts in shape.experts}):
            yield Slice(f"an expert's width {width}", width // cuts.experts, "outputs+inputs", "experts")
    if cuts.dense > 1 and not _left_out(quantization, "mlp", "shared", "feed_forward"):
        for width in sorted(shape.dense):
            yield Slice(f"the MLP's width {width}", width // cuts.dense, "outputs+inputs", "linear")
    if cuts.attention > 1 and not _left_out(quantization, "attn", "attention"):
        yield from _attention(shape, cuts.attention)


def _attention(shape: Shape, tp: int) -> Iterator[Slice]:
    kinds = {mixer for layer in shape.layers for mixer in layer.mixers if isinstance(mixer, Attention)}
    for each in sorted(kinds, key=lambda one: (one.heads, one.kv_heads, one.head_dim)):
        if each.heads % tp:
            continue
        queries = each.heads // tp * each.head_dim
        yield Slice(f"the queries of {each.heads} heads", queries, "outputs", "linear")
        keys = max(1, each.kv_heads // tp) * each.head_dim
        yield Slice(f"the keys of {each.kv_heads} KV heads", keys, "outputs", "linear")
        values = each.heads // tp * each.v_head_dim
        yield Slice(f"the output of {each.heads} heads", values, "inputs", "linear")


def _left_out(quantization: Quantization, *words: str) -> bool:
    """Whether the checkpoint may leave such modules unquantized: then nothing is said about them."""
    names = [name.lower() for name in quantization.ignored]
    return any(word in name for name in names for word in words) or any(name == "re:.*$" for name in names)


def _judge(question: Question, unit: Unit, piece: Slice) -> Ruling | None:
    """None: the slice holds whole blocks."""
    sizes: Sequence[tuple[str, int]] = (("outputs", unit.outputs), ("inputs", unit.inputs))
    wrong = [size for along, size in sizes if along in piece.along and piece.size % size]
    if not wrong:
        return None
    rule = question.rule("blocks", f"{unit.form} {piece.part}")
    said = f"{piece.what} leaves {piece.size} a rank, which {wrong[0]} does not divide ({unit})"
    quantization: Fact[Quantization | None] = question.model.quantization
    heals = (SPREAD,) if piece.part == "experts" else ()
    match rule:
        case Known(Row() as row) if row.values["cut"] == "refused":
            return no(said, quantization, question.shape, rule, heals=heals)
        case Known(Row() as row) if row.values["cut"] == "padded":
            return None
        case Known(Row() as row) if row.values["cut"] == "refined":
            finer = gcd(*(size for _, size in sizes), piece.size)
            if finer >= int(row.values["finest"]):
                return None
            return no(said, quantization, question.shape, rule, heals=heals)
        case Missing() as lack:
            return unknown(
                f"{said}; {lack.why}", lack.ask or "start it once", quantization, question.shape, rule
            )
        case _:
            return unknown(
                f"{said}; whether this release loads that is not known",
                "start it once",
                quantization,
                question.shape,
            )


def _is_unknown(ruling: Ruling) -> bool:
    from canserve.verdict import Unknown

    return isinstance(ruling.verdict, Unknown)


BLOCKS = Constraint(
    "quantization-blocks-divide",
    "No rank gets a part of a block or group of weights that has one scale.",
    _divide,
    frozenset({"tp", "dp", "ep"}),
)
