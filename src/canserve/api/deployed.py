"""The layout that engine flags ask for, for ``check``: whether it is legal, and what its memory holds."""

from __future__ import annotations

from collections.abc import Sequence

from canserve.checks.case import Case, Deployment, Wish
from canserve.checks.layout import constraints, judge
from canserve.checks.layout.asked import degrees, no_towers, whole_encoder
from canserve.facts import Known
from canserve.layout import Layout, Question, hosts, layouts
from canserve.subjects.build import Build
from canserve.subjects.machine import Machine
from canserve.subjects.model import Model
from canserve.verdict import Finding, Skipped


def layout_findings(
    model: Model, build: Build, machines: Sequence[Machine], wish: Wish
) -> tuple[tuple[Finding, ...], tuple[Skipped, ...]]:
    """What the layout checks say of the degrees that the flags ask for; nothing where they ask for none."""
    parallel = degrees(wish)
    if parallel is None or not machines:
        return (), ()
    version = build.identity.version
    question = Question(
        model,
        hosts(machines),
        build.identity.engine,
        version.value if isinstance(version, Known) else "",
        build,
        whole_encoder=whole_encoder(wish),
        towers=not no_towers(wish),
    )
    answer = layouts(question)
    found = answer.at(parallel)
    placement = found.placement if isinstance(found, Layout) else None
    case = Case(model, build, None, wish, deployment=Deployment(answer.judged, parallel, placement))
    return judge(case, constraints.CHECKS)
