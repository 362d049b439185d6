"""The layout of a case, and what its memory holds."""

from __future__ import annotations

from canserve.checks.case import Case, Deployment
from canserve.checks.reader import NotApplicable, Reader
from canserve.facts import Missing
from canserve.memory.quantity import GIB, Quantity
from canserve.memory.request import RankMemory, Serving
from canserve.verdict import No, Unknown, Verdict, Yes


def deployed(case: Case) -> Deployment:
    """The layout; a check with ``needs_layout`` is only run with one."""
    if case.deployment is None:
        raise NotApplicable("no layout was named")
    return case.deployment


def placed(case: Case) -> Deployment:
    """A layout whose ranks have places; what is illegal holds no memory."""
    found = deployed(case)
    if found.placement is None:
        raise NotApplicable("the layout is not legal")
    return found


def serving(reader: Reader, case: Case) -> Serving:
    """What the deployment holds, for checks beside ``weights-fit``, which says so where it is not known."""
    found = placed(case).serving
    if isinstance(found, Missing):
        raise NotApplicable(f"{found.why}: see weights-fit")
    if any(occupied(rank).low > rank.budget.high for rank in found.value.ranks):
        raise NotApplicable("the weights do not fit: see weights-fit")
    return reader.read(found)


def occupied(rank: RankMemory) -> Quantity:
    """What weights and CUDA's own take of a rank."""
    return rank.weights.plus(rank.non_torch, "weights, and what CUDA and NCCL take")


def name_of(case: Case, at: int) -> str:
    """``rank 3 on spark-2``."""
    placement = placed(case).placement
    assert placement is not None
    return f"rank {at} on {placement.ranks[at].machine}"


def tightest(case: Case, found: Serving) -> tuple[str, RankMemory]:
    """The rank with the least memory left."""
    at = min(range(len(found.ranks)), key=lambda rank: found.ranks[rank].kv_available.value)
    return name_of(case, at), found.ranks[at]


def within(need: Quantity, room: Quantity, words: str, fix: str) -> Verdict:
    """Yes where the most that is needed fits, no where the least does not, unknown between."""
    amounts = f"{words}: {gib(need)} of {gib(room)}"
    if need.high <= room.low:
        return Yes(amounts)
    if need.low > room.high:
        return No(amounts, fix)
    return Unknown(f"{amounts}: too close to tell", f"start it once, or {fix}")


def gib(amount: Quantity) -> str:
    """``57.8 GiB``, with the interval where it is wide."""
    value, low, high = (each / GIB for each in (amount.value, amount.low, amount.high))
    if high - low < 0.05 * max(abs(value), 0.1):
        return f"{value:.1f} GiB"
    return f"{value:.1f} GiB ({low:.1f} to {high:.1f})"
