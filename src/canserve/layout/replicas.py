"""Constraint on data parallelism: whether the engine has it, and where its replicas may lie."""

from __future__ import annotations

from canserve.facts import Missing
from canserve.layout.question import Question
from canserve.layout.ruling import Constraint, Ruling, missing, no, yes
from canserve.subjects.parallel import Parallel


def _allowed(question: Question, parallel: Parallel) -> Ruling | None:
    if parallel.dp == 1:
        return None
    rule = question.rule("data")
    if isinstance(rule, Missing):
        return missing(rule)
    where = rule.value.values["replicas"] if rule.value else "none"
    if where == "none":
        return no("this release has no data parallelism", rule, heals=("start several deployments",))
    if where == "one machine" and parallel.ep == 1:
        most = max((host.gpus for host in question.hosts), default=0)
        if parallel.ranks > most:
            return no(
                f"replicas that take {parallel.ranks} accelerators have to lie on one machine, and the largest has {most}",
                rule,
                heals=("start one deployment a machine",),
            )
    return yes(f"this release runs {parallel.dp} data parallel replicas", rule)


DATA = Constraint(
    "data-parallel-allowed",
    "The engine runs that many data parallel replicas, where they lie.",
    _allowed,
    frozenset({"tp", "pp", "dp", "ep"}),
)
