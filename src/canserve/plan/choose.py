"""Which layouts are worth a plan, and in which order plans are shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from canserve.facts import Known, Missing
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

    Every tensor parallel size that divides, alone with its experts cut or spread, in stages, and as replicas
    that fill the machines. What the user fixed is taken as it is. Of a model whose shape is not known the
    first one stands for all: nothing tells them apart.
    """
    for parallel in dict.fromkeys(_degrees(found, wishes)):
        layout = found.at(parallel) if wishes.allows(parallel) else None
        if isinstance(layout, Layout):
            yield layout
            if isinstance(found.judged.question.shape, Missing):
                return


def _degrees(found: Layouts, wishes: Wishes) -> Iterator[Parallel]:
    question, fixed = found.judged.question, wishes.fixed
    gpus, most = question.gpus, min(question.gpus, MOST_RANKS)
    for tp in _sizes(fixed.tp, range(1, min(gpus, LARGEST) + 1)):
        if not _legal(found, tp):
            continue
        for pp in _sizes(fixed.pp, _stages(most // tp, len(question.hosts))):
            # Replicas of stages are worth it only where somebody asks for them.
            filling = {1, *_filling(found, tp, most // tp)} if pp == 1 else {1}
            for dp in _sizes(fixed.dp, sorted(filling)):
                spreads = {1, tp, tp * dp} if pp == 1 or wishes.spread else {1}
                for ep in _sizes(fixed.ep, sorted(spreads)):
                    yield Parallel(tp, pp, dp, ep)


def _filling(found: Layouts, tp: int, most: int) -> Iterator[int]:
    """The most replicas that are legal, with experts cut and with experts spread: all, or a power of two."""
    if most < 1:  # not even one replica has room
        return
    sizes = [most, *(1 << power for power in range(most.bit_length() - 1, 0, -1))]
    for spread in (False, True):
        fits = (dp for dp in sizes if found.judged.legal(Parallel(tp, 1, dp, tp * dp if spread else 1)))
        if (dp := next(fits, None)) is not None:
            yield dp


def _stages(most: int, machines: int) -> Sequence[int]:
    """Numbers of pipeline stages: one or two on a machine, in powers of two over several, one on each."""
    powers = (1 << power for power in range(machines.bit_length()))
    return sorted(pp for pp in {1, 2, machines, *powers} if pp <= max(most, 1))


def _sizes(fixed: int | None, otherwise: Sequence[int]) -> Sequence[int]:
    return otherwise if fixed is None else (fixed,)


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
    few = -float(plan.parallel.ranks)
    speed = plan.speed.value if isinstance(plan.speed, Known) else None
    decode = 0.0 if speed is None else speed.decode.value
    busy = 0.0 if speed is None else speed.saturated.value
    context = tokens = 0.0
    if isinstance(plan.serving, Known):
        serving = plan.serving.value
        context = serving.max_context.low
        tokens = serving.max_concurrency.value * serving.context
    figures = {
        "latency": (decode, few, busy, tokens),
        "throughput": (busy, tokens, decode),
        "context": (context, few, tokens, decode),
    }[goal]
    return tuple(float(f"{figure:.3g}") for figure in figures)
