"""The order of candidates, as a pure function: examples, and what holds for every order."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from canserve.plan.offers.ranking import Standing, ranked
from canserve.plan.offers.travel import Travel
from canserve.units import Bytes
from canserve.verdict import Word

WORDS: tuple[Word, ...] = ("yes", "unknown", "no")


def travel(least: int, most: int | None) -> Travel:
    return Travel(Bytes(least), None if most is None else Bytes(most), "")


def standing(
    name: str, verdict: Word = "yes", *bounds: tuple[int, int | None], date: str | None = None
) -> Standing:
    return Standing(verdict, tuple(travel(*each) for each in bounds), date, name)


def order(*candidates: Standing) -> list[str]:
    shuffled = list(candidates)
    random.Random(len(candidates)).shuffle(shuffled)
    return [one.name for one in ranked(shuffled, lambda one: one)]


def test_verdict_then_presence_then_bytes_then_age_then_name() -> None:
    assert order(
        standing("there", "yes", (0, 0), (0, 0)),
        standing("light", "yes", (0, 0), (10, 10)),
        standing("bounded", "yes", (0, 0), (0, 20)),
        standing("new", "yes", (0, 0), (30, 30), date="2026-03-08"),
        standing("old", "yes", (0, 0), (30, 30), date="2025-03-08"),
        standing("a undated", "yes", (0, 0), (30, 30)),
        standing("b undated", "yes", (0, 0), (30, 30)),
        standing("unmeasured", "yes", (0, 0), (0, None), date="2026-11-01"),
        standing("perhaps", "unknown", (0, 0), (0, 0)),
        standing("never", "no", (0, 0), (0, 0)),
    ) == [
        "there",
        "light",
        "bounded",
        "new",
        "old",
        "a undated",
        "b undated",
        "unmeasured",
        "perhaps",
        "never",
    ]


def test_a_candidate_that_may_be_there_is_not_counted_as_there() -> None:
    assert order(standing("perhaps there", "yes", (0, 5)), standing("there", "yes", (0, 0))) == [
        "there",
        "perhaps there",
    ]


BOUNDS = st.tuples(st.integers(0, 5), st.none() | st.integers(0, 5)).map(
    lambda pair: (pair[0], None if pair[1] is None else pair[0] + pair[1])
)
STANDINGS = st.lists(
    st.builds(
        lambda name, verdict, one, two, date: standing(name, verdict, one, two, date=date),
        st.text("abc", min_size=1, max_size=3),
        st.sampled_from(WORDS),
        BOUNDS,
        BOUNDS,
        st.none() | st.sampled_from(["2025-01-01", "2026-01-01T00:00:00Z"]),
    ),
    max_size=8,
    unique_by=lambda one: one.name,
)
"""Names are those of targets, and offers of one target are one."""


@given(STANDINGS, st.randoms(use_true_random=False))
def test_the_order_does_not_depend_on_that_of_the_candidates(
    found: list[Standing], chance: random.Random
) -> None:
    first = ranked(found, lambda one: one)
    again = list(found)
    chance.shuffle(again)
    assert ranked(again, lambda one: one) == first
    assert sorted(map(repr, first)) == sorted(map(repr, found)), "nothing is lost and nothing is added"


@given(STANDINGS)
def test_nothing_stands_before_something_better(found: list[Standing]) -> None:
    best = {word: at for at, word in enumerate(WORDS)}
    for before, after in zip(first := ranked(found, lambda one: one), first[1:], strict=False):
        assert best[before.verdict] <= best[after.verdict]
        if before.verdict == after.verdict:
            there = [all(each.there for each in one.travel) for one in (before, after)]
            assert there != [False, True]
            known = [all(each.most is not None for each in one.travel) for one in (before, after)]
            assert there[0] or known != [False, True]
