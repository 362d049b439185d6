"""Constraint on the vision encoder: its heads are cut like the decoder's, unless it is kept whole."""

from __future__ import annotations

from canserve.facts import Known, Missing
from canserve.layout.question import Question
from canserve.layout.ruling import Constraint, Ruling, missing, no, unknown, yes
from canserve.layout.shape import vision_heads
from canserve.rules.parallel import of_class
from canserve.rules.table import Row
from canserve.subjects.parallel import Parallel

INTERFACE = "supports_multimodal_encoder_tp_data"


def _heads(question: Question, parallel: Parallel) -> Ruling | None:
    if not question.towers:
        return None
    heads = vision_heads(question.model)
    if isinstance(heads, Missing):
        return missing(heads) if parallel.tp > 1 else None
    if heads.value is None or parallel.tp == 1:
        return None
    tp = parallel.tp
    if heads.value % tp == 0:
        return yes(f"{heads.value} heads of the vision encoder divide by tensor parallel {tp}", heads)
    names = question.model.architectures
    if isinstance(names, Missing):
        return missing(names)
    able = _kept_whole(question, names.value)
    if question.whole_encoder and able:
        return yes("the vision encoder is kept whole on every rank", heads)
    flag = question.rule("encoder")
    named = flag.value.text("flag") if isinstance(flag, Known) and flag.value is not None else None
    heals = (f"keep the vision encoder whole ({named})",) if named and able else ()
    said = f"{heads.value} heads of the vision encoder do not divide by tensor parallel {tp}"
    match of_class("vision", question.engine, question.version, names.value):
        case Known(Row() as row, evidence) if row.values["heads"] == "divide":
            return no(said, heads, names, Known(None, evidence), heals=heals)
        case Known(Row(), evidence):
            return yes(f"{said}; they are padded", heads, names, Known(None, evidence))
        case _:
            ask = " or ".join(("start it once", *heals))
            return unknown(f"{said}; whether its encoder is cut was not read", ask, heads, names)


def _kept_whole(question: Question, architectures: tuple[str, ...]) -> bool:
    """Whether the class can keep its encoder whole; where it was not read, that is taken to be so."""
    for name in architectures:
        found = question.build.classes.get(name) if question.build else None
        if isinstance(found, Known) and found.value is not None:
            return found.value.interfaces.get(INTERFACE) is not False
    return True


VISION = Constraint(
    "vision-heads-divide",
    "The vision encoder's heads divide by the tensor parallel size, or it is kept whole or padded.",
    _heads,
    frozenset({"tp"}),
)
