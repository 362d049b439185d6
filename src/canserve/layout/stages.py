"""Constraints on pipeline stages, and how an engine shares layers out among them."""

from __future__ import annotations

from canserve.facts import Fact, Known, Missing
from canserve.layout.question import Question
from canserve.layout.ruling import Constraint, Ruling, missing, no, unknown, yes
from canserve.rules.table import Row
from canserve.subjects.build import Build
from canserve.subjects.parallel import Parallel
from canserve.verdict import No

ALONE = "leave pipeline parallelism out"
INTERFACE = "supports_pp"


def share_out(layers: int, stages: int, rest: str) -> tuple[int, ...]:
    """Layers of each stage, first to last. ``rest`` says who takes what is left over.

    >>> share_out(61, 4, "last"), share_out(61, 4, "middle"), share_out(62, 4, "late")
    ((15, 15, 15, 16), (15, 15, 16, 15), (15, 15, 16, 16))
    """
    each, over = divmod(layers, stages)
    counts = [each] * stages
    if rest == "last":
        counts[-1] += over
    for number in range(over if rest != "last" else 0):
        counts[stages - 2 - number if rest == "middle" else stages - 1 - number] += 1
    return tuple(counts)


def stage_layers(question: Question, stages: int) -> Fact[tuple[int, ...]]:
    """Layers of each stage as this release shares them out."""
    shape = question.shape
    if isinstance(shape, Missing):
        return shape
    layers = len(shape.value.layers)
    if stages == 1:
        return Known((layers,), shape.evidence)
    match question.rule("stages"):
        case Known(Row() as row, evidence):
            return Known(share_out(layers, stages, row.text("rest")), shape.evidence + evidence)
        case Known(_, evidence):
            return Known(share_out(layers, stages, "middle"), shape.evidence + evidence)
        case Missing() as lack:
            return lack


def _cover(question: Question, parallel: Parallel) -> Ruling | None:
    if parallel.pp == 1:
        return None
    shape = question.shape
    if isinstance(shape, Missing):
        return missing(shape)
    layers = len(shape.value.layers)
    if parallel.pp > layers:
        heal = (f"use at most {layers} pipeline stages",)
        return no(f"{layers} layers cannot fill {parallel.pp} pipeline stages", shape, heals=heal)
    shared = stage_layers(question, parallel.pp)
    if isinstance(shared, Missing):
        return yes(f"{layers} layers fill {parallel.pp} stages", shape)
    words = ", ".join(str(count) for count in shared.value)
    return yes(f"{layers} layers fill {parallel.pp} stages: {words}", shared)


def _supported(question: Question, parallel: Parallel) -> Ruling | None:
    if parallel.pp == 1:
        return None
    rule = question.rule("stages")
    row = rule.value if isinstance(rule, Known) else None
    if row is not None and row.values["rest"] == "none":
        return no("this release has no pipeline stages", rule, heals=(ALONE,))
    if row is not None and row.values.get("classes") == "all":
        return yes("this engine gives whole layers of any model to stages", rule)
    names = question.model.architectures
    if isinstance(names, Missing):
        return missing(names)
    if question.build is None:
        return unknown("whether the model's class can be cut was not read", "name a build that can be read")
    found = _class_says(question.build, names.value)
    if found is None:
        return unknown(
            "the class that serves the model was not read", "start it once, or leave pipeline parallelism out"
        )
    if question.draft and not isinstance(found.verdict, No):
        return _draft_says(question.build, names.value) or found
    return found


def _draft_says(build: Build, architectures: tuple[str, ...]) -> Ruling | None:
    """What the class says that predicts ahead; it runs in the same stages. None: no such class was read."""
    if isinstance(build.draft_classes, Missing):
        return None
    drafts = [draft for name in architectures for draft in build.draft_classes.value.get(name, ())]
    return _class_says(build, tuple(drafts))


def _class_says(build: Build, names: tuple[str, ...]) -> Ruling | None:
    """Whether the first of these classes that was read can be cut into stages."""
    for name in names:
        found = build.classes.get(name)
        if not isinstance(found, Known) or found.value is None:
            continue
        says = found.value.interfaces.get(INTERFACE)
        if says is None:
            return unknown(
                f"whether {name} can be cut into pipeline stages is not written in its class",
                "start it once, or leave pipeline parallelism out",
                found,
            )
        if says:
            return yes(f"{name} can be cut into pipeline stages", found)
        return no(f"{name} cannot be cut into pipeline stages in this build", found, heals=(ALONE,))
    return None


COVER = Constraint(
    "layers-cover-stages", "Every pipeline stage has at least one layer.", _cover, frozenset({"pp"})
)
SUPPORTED = Constraint(
    "pipeline-supported",
    "The class that serves the model can be cut into pipeline stages.",
    _supported,
    frozenset({"pp"}),
)
