"""Which candidate is to be tried first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from canserve.plan.offers.travel import Travel
from canserve.verdict import Word

T = TypeVar("T")

_BEST_FIRST: dict[Word, int] = {"yes": 0, "unknown": 1, "no": 2}


@dataclass(frozen=True, slots=True)
class Standing:
    """All that decides a candidate's place."""

    verdict: Word
    travel: tuple[Travel, ...]
    """Of the build, to each machine."""
    date: str | None
    """ISO 8601; what has none comes after what has one."""
    name: str


def ranked(candidates: Sequence[T], standing: Callable[[T], Standing]) -> tuple[T, ...]:
    """Yes before unknown before no; on all machines before what has to travel; fewer bytes; newest; by name.

    A number of bytes that is not known comes after every one that is. The order does not depend on that of
    the candidates.
    """
    by_name = sorted(candidates, key=lambda one: standing(one).name)
    by_date = sorted(by_name, key=lambda one: standing(one).date or "", reverse=True)
    return tuple(sorted(by_date, key=lambda one: _key(standing(one))))


def _key(standing: Standing) -> tuple[int, bool, int, int]:
    # What is on all machines needs no place of its own: nothing is fewer bytes than none.
    travel = standing.travel
    bounds = [each.most.count for each in travel if each.most is not None]
    return (
        _BEST_FIRST[standing.verdict],
        len(bounds) < len(travel),
        sum(bounds) if len(bounds) == len(travel) else 0,
        sum(each.least.count for each in travel),
    )
