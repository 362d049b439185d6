"""Into how many slices each part of a model is cut under given degrees of parallelism."""

from __future__ import annotations

from canserve.facts import Cause, Fact, Known, Missing
from canserve.layout.matrices import Cuts
from canserve.layout.question import Question
from canserve.subjects.parallel import Parallel


def cuts(question: Question, parallel: Parallel) -> Fact[Cuts]:
    """All three at once."""
    dense, experts = dense_slices(question, parallel), expert_slices(question, parallel)
    if isinstance(dense, Missing):
        return dense
    if isinstance(experts, Missing):
        return experts
    return Known(Cuts(parallel.tp, dense.value, experts.value), dense.evidence + experts.evidence)


def expert_slices(question: Question, parallel: Parallel) -> Fact[int]:
    """Into how many slices each routed expert is cut."""
    world = parallel.tp * parallel.dp
    if parallel.ep > 1:
        return Known(max(1, world // parallel.ep))
    if parallel.dp == 1:
        return Known(parallel.tp)
    match question.rule("experts"):
        case Known(None, evidence):
            return Missing(Cause.UNAVAILABLE, "how experts are cut under data parallelism", evidence)
        case Known(row, evidence) if row is not None:
            return Known(world if row.values["sliced"] == "tp * dp" else parallel.tp, evidence)
        case missing:
            return missing if isinstance(missing, Missing) else Known(parallel.tp)


def dense_slices(question: Question, parallel: Parallel) -> Fact[int]:
    """Into how many slices dense MLPs are cut: all ranks, where an engine keeps only attention apart."""
    if parallel.dp == 1 or parallel.ep == 1:
        return Known(parallel.tp)
    match question.rule("experts"):
        case Known(row, evidence) if row is not None:
            whole = row.values.get("dense") == "tp * dp"
            return Known(parallel.tp * parallel.dp if whole else parallel.tp, evidence)
        case Missing() as missing:
            return missing
        case _:
            return Known(parallel.tp)
