"""Which layouts are worth a plan, and in which order plans are shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from canserve.facts import Known
from canserve.layout import Layout, Layouts
from canserve.plan.plan import Plan
from canserve.plan.wishes import Goal, Wishes
from canserve.subjects.parallel import Parallel
from canserve.verdict import Word, word

_ORDER: dict[Word, int] = {"yes": 0, "unknown": 1, "no": 2}
LARGEST = 1024
"""Largest tensor parallel size that is tried."""
MOST_RANKS = 1024
"""Accelerators of one deployment that are planned rank by rank, unless the user fixed more."""


def worth_planning(found: Layouts, wishes: Wishes) -> Iterator[Layout]:
    """Legal layouts that differ in what they are good for, smallest first.

    Every tensor parallel size that divides; stages in powers of two, one a machine, or all of the machines;
    one replica or as many as there is room for; experts cut or spread. What the user fixed is taken as it is.
    """
    seen = set()
    for parallel in _degrees(found, wishes):
        if parallel in seen or not wishes.allows(parallel):
            continue
        seen.add(parallel)
        layout = found.at(parallel)
        if isinstance(layout, Layout):
            yield layout


def _degrees(found: Layouts, wishes: Wishes) -> Iterator[Parallel]:
    question, fixed = found.judged.question, wishes.fixed
    gpus, machines = question.gpus, len(question.hosts)
    most = min(gpus, MOST_RANKS)
    for tp in _sizes(fixed.tp, range(1, min(gpus, LARGEST) + 1)):
        if not _legal(found, tp):
            continue
        for pp in _sizes(fixed.pp, sorted({*_powers(most // tp), *_powers(machines), machines, most // tp})):
            if pp < 1 or tp * pp > gpus:
                continue
            for dp in _sizes(fixed.dp, sorted({1, max(1, most // (tp * pp))})):
                for ep in _sizes(fixed.ep, sorted({1, tp, tp * dp})):
                    yield Parallel(tp, pp, dp, ep)


def _sizes(fixed: int | None, otherwise: Sequence[int]) -> Sequence[int]:
    return otherwise if fixed is None else (fixed,)


def _powers(most: int) -> set[int]:
    return {1 << power for power in range(most.bit_length())}


def _legal(found: Layouts, tp: int) -> bool:
    """Whether the model can be cut so at all; whole experts may be spread where they cannot be cut."""
    return any(found.judged.legal(Parallel(tp, 1, 1, ep)) for ep in {1, tp})


def ranked(plans: Sequence[Plan], goal: Goal) -> tuple[Plan, ...]:
    """Best first: by verdict, then by the goal, then those that take fewer accelerators."""
    return tuple(sorted(plans, key=lambda plan: _rank(plan, goal)))


def _rank(plan: Plan, goal: Goal) -> tuple[float, ...]:
    return (_ORDER[word(plan.verdict)], *(-figure for figure in _figures(plan, goal)), plan.parallel.ranks)


def _figures(plan: Plan, goal: Goal) -> tuple[float, ...]:
    """What the goal asks for, the most important first; three digits, so that trifles decide nothing."""
    speed = plan.speed.value if isinstance(plan.speed, Known) else None
    decode = 0.0 if speed is None else speed.decode.value
    busy = 0.0 if speed is None else speed.saturated.value
    context = tokens = 0.0
    if isinstance(plan.serving, Known):
        serving = plan.serving.value
        context = serving.max_context.low
        tokens = serving.max_concurrency.value * serving.context
    figures = {
        "latency": (decode, busy, tokens),
        "throughput": (busy, tokens, decode),
        "context": (context, tokens, decode),
    }[goal]
    return tuple(float(f"{figure:.3g}") for figure in figures)
