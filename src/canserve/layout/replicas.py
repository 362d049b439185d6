"""Constraint on data parallelism: whether the engine has it, and where its replicas may lie."""

from __future__ import annotations

from collections.abc import Sequence

from canserve.facts import Known, Missing
from canserve.layout.question import Question
from canserve.layout.ruling import Constraint, Looked, Ruling, missing, no, unknown, yes
from canserve.rules.parallel import of_class
from canserve.rules.table import Row
from canserve.subjects.parallel import Parallel, Placement, Rank
from canserve.verdict import Unknown


def _allowed(question: Question, parallel: Parallel) -> Ruling | None:
    if parallel.dp == 1:
        return None
    rule = question.rule("data")
    if isinstance(rule, Missing):
        return missing(rule)
    if rule.value is None:
        return unknown("whether this release runs replicas is not known", "start it once", rule)
    where = rule.value.values["replicas"]
    if where == "none":
        return no("this release has no data parallelism", rule, heals=("start several deployments",))
    if parallel.joined:
        return _joined(question, parallel, rule.value, rule)
    if where == "one machine":
        most = max((host.gpus for host in question.hosts), default=0)
        if parallel.ranks > most:
            return no(
                f"replicas that take {parallel.ranks} accelerators have to lie on one machine, and the largest has {most}",
                rule,
                heals=("start one deployment a machine",),
            )
    return yes(f"this release runs {parallel.dp} data parallel replicas", rule)


def _joined(question: Question, parallel: Parallel, row: Row, rule: Looked) -> Ruling:
    """Attention alone is data parallel: whether the model's class can do that."""
    names = question.model.architectures
    if row.values["attention"] == "all":
        return yes(f"this release runs {parallel.dp} replicas that share their experts", rule)
    if isinstance(names, Missing):
        return missing(names)
    known = of_class("attention", question.engine, question.version, names.value)
    if isinstance(known, Known) and known.value is not None:
        return yes(f"{', '.join(names.value)} keeps the attention of {parallel.dp} replicas apart", known)
    because = "whether the model's class keeps the attention of replicas apart was not read"
    return unknown(because, "start it once, or use tensor parallelism alone", names, rule)


def straddling(question: Question, placement: Placement) -> tuple[tuple[str, Unknown], ...]:
    """The doubt about replicas that lie on several machines each, where the engine's rule has one."""
    parallel = placement.parallel
    rule = question.rule("data")
    if parallel.dp == 1 or not isinstance(rule, Known) or rule.value is None:
        return ()
    size = parallel.tp * parallel.pp
    groups = (placement.ranks[at : at + size] for at in range(0, parallel.ranks, size))
    if rule.value.values.get("straddling") != "unsure" or not any(_apart(group) for group in groups):
        return ()
    because = "several replicas that lie on more than one machine each were seen to work in no release"
    return ((DATA.name, Unknown(because, "start it once, or start one deployment for each replica")),)


def _apart(group: Sequence[Rank]) -> bool:
    return len({rank.machine for rank in group}) > 1


DATA = Constraint(
    "data-parallel-allowed",
    "The engine runs that many data parallel replicas, where they lie.",
    _allowed,
    frozenset({"tp", "pp", "dp", "ep"}),
    tensor=False,
)
