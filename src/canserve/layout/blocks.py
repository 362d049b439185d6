"""Constraint on quantized weights: no rank gets a part of a block, or of a group, that has one scale."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd

from canserve.facts import Fact, Known, Missing
from canserve.layout.degrees import cuts
from canserve.layout.matrices import Cuts, Matrix, Slice, scheme_of
from canserve.layout.question import Question
from canserve.layout.ruling import Constraint, Ruling, missing, no, unknown, yes
from canserve.layout.width import SPREAD
from canserve.rules.table import Row
from canserve.subjects.model import Quantization
from canserve.subjects.parallel import Parallel
from canserve.verdict import No


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

    def along(self, direction: str) -> int:
        """Its size in a direction."""
        return self.outputs if direction == "outputs" else self.inputs


def unit(matrix: Matrix, quantization: Quantization) -> Unit | None:
    """The blocks or groups of a matrix; None: its scales are of whole rows or of the whole matrix."""
    scheme = scheme_of(matrix, quantization)
    if scheme is None:
        return None
    if scheme.block is not None:
        return Unit("block", *scheme.block)
    if scheme.group_size is not None and scheme.group_size > 0:
        return Unit("group", 1, scheme.group_size)
    return None


def _divide(question: Question, parallel: Parallel) -> Ruling | None:
    quantization = question.model.quantization
    if isinstance(quantization, Missing):
        return missing(quantization)
    stored = quantization.value
    if stored is None or not any(scheme.block or (scheme.group_size or 0) > 0 for scheme in stored.schemes):
        return None
    found, sliced = question.matrices, cuts(question, parallel)
    if isinstance(found, Missing):
        return missing(found)
    if isinstance(sliced, Missing):
        return missing(sliced)
    if not found.value:
        why = (
            f"which of the model's matrices are stored as {stored.method} could not be told from its tensors"
        )
        return unknown(why, "start it once", quantization, found)
    rulings = [
        _judge(question, stored, unit, piece) for piece, unit in _through(found.value, sliced.value, stored)
    ]
    worst = next((each for each in rulings if each is not None and isinstance(each.verdict, No)), None)
    worst = worst or next((each for each in rulings if each is not None), None)
    if worst is not None:
        return worst
    units = dict.fromkeys(str(each) for matrix in found.value if (each := unit(matrix, stored)))
    return yes(f"no rank gets a part of {' or '.join(units) or 'a block'}", quantization, found)


def _through(found: tuple[Matrix, ...], sliced: Cuts, stored: Quantization) -> Iterator[tuple[Slice, Unit]]:
    """The slices that go through a block or group."""
    for matrix in found:
        each = unit(matrix, stored)
        if each is None:
            continue
        for piece in matrix.slices(sliced):
            if piece.size % each.along(piece.along):
                yield piece, each


def _judge(question: Question, stored: Quantization, each: Unit, piece: Slice) -> Ruling | None:
    """What the engine does with such a slice; None: it takes it."""
    experts = piece.of.part == "experts"
    part = "experts" if experts else "merged" if piece.of.merged and each.form == "block" else "linear"
    rule = _rule(question, f"{each.form} {part}", stored)
    said = f"{piece}, through {each}"
    facts = (question.model.quantization, question.matrices)
    match rule:
        case Known(Row() as row) if row.values["cut"] == "padded":
            return None
        case Known(Row() as row) if row.values["cut"] == "refined" and gcd(
            each.along(piece.along), piece.size
        ) >= int(row.values["finest"]):
            return None
        case Known(Row() as row) if row.values["cut"] == "unsure" or _doubtful(piece, each):
            return unknown(f"{said}; some classes take that", "start it once", *facts, rule)
        case Known(Row()):
            return no(said, *facts, rule, heals=(SPREAD,) if experts else ())
        case Missing(why=why, ask=ask):
            return unknown(f"{said}; {why}", ask or "start it once", *facts, rule)
        case _:
            return unknown(f"{said}; whether this release loads that is not known", "start it once", *facts)


def _doubtful(piece: Slice, each: Unit) -> bool:
    """Whether only the config says that a matrix of no whole blocks is quantized: such ones are often left out."""
    whole = piece.of.outputs if piece.along == "outputs" else piece.of.inputs
    return not piece.of.stored and whole % each.along(piece.along) != 0


def _rule(question: Question, part: str, stored: Quantization) -> Fact[Row | None]:
    """The row for the quantization method, else the one for all."""
    for method in (stored.method, *stored.aliases):
        found = question.rule("blocks", f"{part} {method}")
        if isinstance(found, Known) and found.value is not None:
            return found
    return question.rule("blocks", part)


BLOCKS = Constraint(
    "quantization-blocks-divide",
    "No rank gets a part of a block or group of weights that has one scale.",
    _divide,
    frozenset({"tp", "dp", "ep"}),
)
