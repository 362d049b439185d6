"""Constraints on widths: the vocabulary, dense MLPs and experts are cut into equal slices."""

from __future__ import annotations

from canserve.facts import Known, Missing
from canserve.layout.degrees import dense_slices, expert_slices
from canserve.layout.question import Question
from canserve.layout.ruling import Constraint, Ruling, missing, no, uneven, unknown, yes
from canserve.layout.shape import vocabulary
from canserve.subjects.parallel import Parallel

SPREAD = "spread whole experts over the ranks (expert parallel)"


def _vocabulary(question: Question, parallel: Parallel) -> Ruling | None:
    rows = vocabulary(question.model)
    if isinstance(rows, Missing):
        return missing(rows)
    tp = parallel.tp
    if rows.value % tp == 0:
        return yes(f"{rows.value} rows of the vocabulary divide by tensor parallel {tp}", rows)
    rule = question.rule("vocabulary")
    if isinstance(rule, Missing):
        return unknown(
            f"{rows.value} rows of the vocabulary do not divide by {tp}; {rule.why}",
            rule.ask or "start it once",
            rows,
            rule,
        )
    row = rule.value
    if row is None:
        because = (
            f"{rows.value} rows of the vocabulary do not divide by {tp}; whether they are padded is not known"
        )
        return unknown(because, "start it once", rows, rule)
    multiple = int(row.values["multiple"])
    padded = -(-rows.value // multiple) * multiple
    if padded % tp == 0 or row.values["stretches"]:
        return yes(f"{rows.value} rows of the vocabulary are padded, and divide by {tp} then", rows, rule)
    return no(f"{padded} rows of the padded vocabulary do not divide by tensor parallel {tp}", rows, rule)


def _dense(question: Question, parallel: Parallel) -> Ruling | None:
    shape = question.shape
    if isinstance(shape, Missing):
        return None
    if not shape.value.dense:
        return None
    slices = dense_slices(question, parallel)
    if isinstance(slices, Missing):
        return missing(slices)
    for width in sorted(shape.value.dense):
        if width % slices.value:
            because = f"the MLP's width {width} does not divide into {slices.value} slices"
            return uneven(question, "widths", because, shape, slices)
    words = " and ".join(str(width) for width in sorted(shape.value.dense))
    return yes(f"the MLP's width {words} divides into {slices.value} slices", shape, slices)


def _experts(question: Question, parallel: Parallel) -> Ruling | None:
    shape = question.shape
    if isinstance(shape, Missing) or not shape.value.moe:
        return None
    slices = expert_slices(question, parallel)
    if isinstance(slices, Missing):
        return missing(slices)
    for experts in sorted(shape.value.experts, key=lambda one: one.width):
        if experts.width % slices.value:
            because = f"an expert's width {experts.width} does not divide into {slices.value} slices"
            return uneven(question, "experts", because, shape, slices, heals=(SPREAD,))
    return yes(f"experts are cut into {slices.value} slices each", shape, slices)


def _ranks(question: Question, parallel: Parallel) -> Ruling | None:
    if parallel.ep == 1:
        return None
    shape = question.shape
    if isinstance(shape, Missing):
        return missing(shape)
    if not shape.value.moe:
        return no("the model has no experts to spread", shape, heals=("leave expert parallel out",))
    fewest = min(experts.number for experts in shape.value.experts)
    if parallel.ep > fewest:
        heal = (f"spread them over at most {fewest} ranks",)
        return no(f"{fewest} experts cannot be spread over {parallel.ep} ranks", shape, heals=heal)
    return _spread(question, parallel, fewest)


def _spread(question: Question, parallel: Parallel, fewest: int) -> Ruling:
    """Whether the engine spreads experts over so many ranks."""
    shape, rule = question.shape, question.rule("experts")
    if isinstance(rule, Missing):
        return missing(rule)
    if rule.value is None:
        return unknown("whether this release can spread experts is not known", "start it once", shape, rule)
    world = parallel.tp * parallel.dp
    spread = rule.value.values["spread"]
    if spread == "none":
        return no("this release cannot spread experts over ranks", shape, rule)
    if world % parallel.ep or (parallel.ep != world and (spread == "all" or parallel.dp > 1)):
        because = f"this release spreads experts over all {world} ranks, not over {parallel.ep}"
        return no(because, shape, rule, heals=(f"spread them over {world}, or over none",))
    if fewest % parallel.ep:
        because = f"{fewest} experts come out unevenly on {parallel.ep} ranks"
        return unknown(because, "start it once", shape, rule)
    return yes(f"{fewest} experts are spread over {parallel.ep} ranks", shape, rule)


def moe(question: Question) -> bool:
    """Whether the model is known to have experts."""
    return isinstance(question.shape, Known) and question.shape.value.moe


VOCABULARY = Constraint(
    "vocabulary-divides",
    "The vocabulary, padded as the engine pads it, divides by the tensor parallel size.",
    _vocabulary,
    frozenset({"tp"}),
)
DENSE = Constraint(
    "mlp-width-divides",
    "Dense MLPs and shared experts are cut into equal slices.",
    _dense,
    frozenset({"tp", "dp", "ep"}),
)
EXPERTS = Constraint(
    "expert-width-divides",
    "Every routed expert is cut into equal slices, or whole experts are spread.",
    _experts,
    frozenset({"tp", "dp", "ep"}),
)
RANKS = Constraint(
    "experts-cover-ranks",
    "There are experts for every rank that whole experts are spread over, in a way the engine has.",
    _ranks,
    frozenset({"tp", "dp", "ep"}),
    tensor=False,
)
