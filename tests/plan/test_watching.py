"""Whether a start moves or stands: the state machine alone, over looks that are made up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from canserve.plan.budgets import BLIND, BUSY, SLOWEST, Budgets
from canserve.plan.watching import LOST, QUIET, Watch, marked
from canserve.rules.failures import knowledge
from canserve.subjects.progress import Count, Counters, Outlook, Sample, Told

ORDER = tuple(knowledge().order)
MARKS = [(marker.engine, marker.phase) for marker in knowledge().markers]
MARKED = marked(MARKS, "vllm")
JOINING = Budgets().of("connecting", MARKED, ORDER).seconds
STILL = Counters(10.0, 1 << 30, 1 << 30, 0, processes=3)


def sample(
    rank: int, *phases: str, news: int = 1, counters: Counters | None = STILL, **more: object
) -> Sample:
    told = Told({rank: frozenset(phases)}, news=news, last="a line")
    it = Sample(rank, f"m{rank}", (rank,), alive=True, told=told, counters=counters)
    return replace(it, **more)  # type: ignore[arg-type]


def watch(patience: float = 1.0) -> Watch:
    return Watch(Budgets(), ORDER, MARKED, patience)


def standing_at(looks: Sequence[Sequence[Sample]], every: float = 1.0, patience: float = 1.0) -> float | None:
    """When it is first said to stand."""
    it = watch(patience)
    return next(
        (n * every for n, look in enumerate(looks) if it.observe(look, n * every).standstill is not None),
        None,
    )


def test_one_that_stands_is_said_to_within_a_minute_of_its_budget() -> None:
    looks = [[sample(0, "connecting"), sample(1, "connecting")]] * 400
    at = standing_at(looks)
    assert at is not None and JOINING <= at <= JOINING + 60
    assert at * 0.5 - 2 <= (standing_at(looks, patience=0.5) or 0) <= at * 0.5 + 2


@pytest.mark.parametrize(
    "moving",
    [
        lambda n: {"news": n},
        lambda n: {"counters": replace(STILL, read=n * (5 << 20))},
        lambda n: {"counters": replace(STILL, written=n * (5 << 20))},
        lambda n: {"counters": replace(STILL, memory=n * (20 << 20))},
        lambda n: {"counters": replace(STILL, accelerator=n * (20 << 20))},
        lambda n: {"counters": replace(STILL, faults=n * 300)},
        lambda n: {"counters": replace(STILL, builders=1)},
    ],
    ids=["log", "bytes read", "bytes written", "memory", "accelerator memory", "pages", "compilers"],
)
def test_what_moves_is_never_said_to_stand(moving: object) -> None:
    looks = [[sample(0, "connecting"), sample(1, "connecting", **moving(n))] for n in range(3000)]  # type: ignore[operator]
    assert standing_at(looks, every=5) is None


def test_a_bar_that_counts_moves() -> None:
    def look(n: int) -> Sample:
        one = sample(0, "capturing")
        return replace(one, told=replace(one.told, counts={None: Count("capturing", n // 20, 10**6)}))

    assert standing_at([[look(n)] for n in range(3000)]) is None
    assert standing_at([[look(0)] for _ in range(3000)]) is not None


def test_who_is_further_waits_for_who_is_behind() -> None:
    """Rank 0 has joined long ago; rank 1 still reads from a slow disk, without a word."""
    looks = [
        [sample(0, "connecting"), sample(1, "engine", counters=replace(STILL, read=n * (2 << 20)))]
        for n in range(2000)
    ]
    assert standing_at(looks) is None
    late = [
        [sample(0, "connecting"), sample(1, "engine", *(["connecting"] if n > 250 else []))]
        for n in range(600)
    ]
    at = standing_at(late)
    assert at is not None and at >= 250 + JOINING, (
        "the budget of those who meet begins when the last has come"
    )


def test_processors_that_are_busy_give_time_but_not_for_ever_and_not_where_ranks_spin() -> None:
    def looks(phase: str) -> list[list[Sample]]:
        return [[sample(0, phase, counters=replace(STILL, cpu=float(n)))] for n in range(12_000)]

    compiling = Budgets().of("compiling", MARKED, ORDER).seconds
    at = standing_at(looks("compiling"))
    assert at is not None and compiling * BUSY <= at <= compiling * BUSY + 60
    spinning = standing_at(looks("connecting"))
    assert spinning is not None and spinning <= JOINING + 60


def test_where_only_the_log_is_seen_silence_has_to_be_longer() -> None:
    at = standing_at([[sample(0, "connecting", counters=None)]] * 400)
    assert at is not None and JOINING * BLIND <= at <= JOINING * BLIND + 60


def test_a_machine_that_is_lost_is_waited_for_but_not_as_long_as_its_phase_may_take() -> None:
    looks = [[sample(0, "loading"), sample(1, "loading", seen=n < 3, alive=None)] for n in range(400)]
    at = standing_at(looks)
    assert at is not None and LOST <= at <= LOST + 60 < Budgets().of("loading", MARKED, ORDER).seconds
    short = [[sample(0, "loading"), sample(1, "loading", seen=not 50 < n < 120)] for n in range(1000)]
    assert standing_at(short) is None, "it is there again"
    alone = [[sample(0, "loading", news=n), sample(1, "loading", seen=n < 3)] for n in range(400)]
    assert standing_at(alone) is None, "the other one moves"
    none = [[sample(0, "loading", seen=n < 3), sample(1, "loading", seen=n < 3)] for n in range(400)]
    at = standing_at(none)
    assert at is not None and LOST <= at <= LOST + 60, "nobody can be looked at"


def test_a_process_that_ended_and_a_worker_that_is_gone() -> None:
    it = watch()
    assert it.observe([sample(0, "loading", lasting={7: "W", 8: "W"})], 0).ended == ()
    assert it.observe([sample(0, "loading", lasting={7: "W"})], 1).ended == ()
    assert it.observe([sample(0, "loading", lasting={})], 2).ended == (), "one look is no proof"
    (gone,) = it.observe([sample(0, "loading", lasting={})], 3).ended
    assert "lost W (process 7)" in gone.state
    it = watch()
    brief = [{7: "W"}, {7: "W", 8: "W"}, {7: "W"}, {7: "W"}, {7: "W", 9: "W"}, {7: "W"}]
    seen = [it.observe([sample(0, "loading", lasting=each)], at).ended for at, each in enumerate(brief)]
    assert not any(seen), "what is there at one look only was not to last"
    assert (
        watch().observe([sample(0, "loading", alive=False, state="exited with 1")], 0).ended[0].state
        == "exited with 1"
    )
    it = watch()
    it.observe([sample(0, lasting={7: "W"})], 0)
    it.observe([sample(0, lasting={7: "W"})], 0.5)
    assert all(it.observe([sample(0, lasting=None)], at).ended == () for at in range(1, 9)), (
        "not seen is not gone"
    )


def test_an_engine_whose_log_tells_nothing_has_the_time_of_all_phases() -> None:
    silent = marked(MARKS, "nobody's")
    it = Watch(Budgets(), ORDER, silent)
    everything = sum(Budgets().of(phase, ORDER, ORDER).seconds for phase in ORDER[: ORDER.index("ready")])
    looks = [it.observe([sample(0)], float(at)) for at in range(0, int(everything), 20)]
    assert all(look.standstill is None for look in looks)


def test_budgets_come_from_the_bytes_that_are_loaded() -> None:
    assert Budgets().of("loading", MARKED, ORDER).seconds >= 60e9 / SLOWEST
    assert (
        Budgets().of("launched", marked(MARKS, "sglang"), ORDER).seconds
        > Budgets().of("launched", MARKED, ORDER).seconds
    )


SAMPLES = st.builds(
    sample,
    st.integers(0, 2),
    *[st.sampled_from([phase for phase in ORDER if phase != "stopping"])] * 2,
    news=st.integers(0, 50),
    counters=st.none() | st.builds(Counters, st.floats(0, 1e6), *[st.integers(0, 1 << 40)] * 3),
    seen=st.booleans(),
    alive=st.sampled_from([True, None, False]),
)


@given(
    st.lists(
        st.tuples(st.lists(SAMPLES, max_size=3, unique_by=lambda one: one.process), st.floats(0.1, 500)),
        max_size=30,
    )
)
def test_whatever_is_seen_phases_only_go_on_and_a_verdict_needs_silence(
    looks: list[tuple[list[Sample], float]],
) -> None:
    it, at = watch(), 0.0
    before: dict[int | None, Outlook] = {}
    for samples, later in looks:
        at += later
        outlook = it.observe(samples, at)
        for stage in outlook.stages:
            places = [("pending", "up", *ORDER).index(phase) for phase, _ in stage.history]
            assert places == sorted(set(places)) and stage.history[-1][0] == stage.phase
            assert stage.since <= stage.moved <= at or not before
        if outlook.standstill is not None:
            assert outlook.standstill.quiet >= QUIET and outlook.standstill.over >= 0
            assert all(at - stage.moved >= QUIET for stage in outlook.stages)
        assert all(each.seen for each in outlook.ended)
        before[None] = outlook
