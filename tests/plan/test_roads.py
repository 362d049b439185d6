"""Which road something takes to which machine, how much of it, and whether there is room."""

from __future__ import annotations

import pytest

from canserve.plan.roads import Leg, Room, Stand, eta, held, legs, sizes
from canserve.units import Bytes


def names(rounds: tuple[tuple[Leg, ...], ...]) -> list[list[tuple[str, str, str | None]]]:
    return [[(leg.to, leg.road, leg.source) for leg in each] for each in rounds]


def spark(name: str, holds: bool = False, internet: bool | None = None) -> Stand:
    return Stand(name, f"10.0.0.{name[-1]}", internet, holds)


def test_straight_from_whoever_holds_it() -> None:
    assert names(legs([spark("m1", holds=True), spark("m2")], ["m1", "m2"], registry=False)) == [
        [("m1", "there", None)],
        [("m2", "direct", "m1")],
    ]


def test_what_has_arrived_is_a_source_so_that_rounds_double() -> None:
    machines = [spark("m1", holds=True), *(spark(f"m{n}") for n in range(2, 9))]
    rounds = legs(machines, [f"m{n}" for n in range(2, 9)], registry=False)
    assert [len(each) for each in rounds] == [1, 2, 4]
    for each in rounds:
        assert len({leg.source for leg in each}) == len(each), "one link carries it twice at once"


def test_without_a_network_between_them_it_goes_through_here_one_after_the_other() -> None:
    machines = [Stand("local", holds=True), Stand("a"), Stand("b")]
    assert names(legs(machines, ["a", "b"], registry=False)) == [
        [("a", "through", "local")],
        [("b", "through", "local")],
    ]


def test_the_operators_link_carries_it_once() -> None:
    machines = [Stand("local", holds=True), spark("m1"), spark("m2")]
    assert names(legs(machines, ["m1", "m2"], registry=False)) == [
        [("m1", "through", "local")],
        [("m2", "direct", "m1")],
    ]


def test_one_of_a_network_fetches_it_for_all() -> None:
    machines = [spark("m1", internet=False), spark("m2"), spark("m3")]
    first, *rest = names(legs(machines, ["m1", "m2", "m3"], registry=True))
    assert first == [("m2", "pull", None)]
    assert sorted(to for each in rest for to, road, _ in each if road == "direct") == ["m1", "m3"]


def test_machines_without_a_common_network_fetch_it_each() -> None:
    assert names(legs([Stand("a"), Stand("b")], ["a", "b"], registry=True)) == [
        [("a", "pull", None), ("b", "pull", None)]
    ]


def test_whoever_may_go_out_fetches_it_for_those_who_may_not() -> None:
    machines = [Stand("a", internet=False), Stand("local")]
    assert names(legs(machines, ["a"], registry=True)) == [
        [("local", "pull", None)],
        [("a", "through", "local")],
    ]


def test_no_road_is_no_leg() -> None:
    assert legs([spark("m1", internet=False)], ["m1"], registry=True) == ()
    assert legs([spark("m1")], ["m1"], registry=False) == ()


def test_layers_are_held_from_the_lowest_on() -> None:
    assert held(("a", "b", "c"), [("a", "x"), ("a", "b", "y", "c")]) == 2
    assert held(("a", "b", "c"), [("b", "c"), ()]) == 0
    assert held(("a", "b"), [("a", "b", "c")]) == 2
    assert held((), []) == 0


def test_sizes_of_layers_from_the_steps_of_a_history() -> None:
    assert sizes([7, 0, 0, 5], ("low", "high")) == (Bytes(5), Bytes(7))
    assert sizes([0, 5], ("low", "empty")) == (Bytes(5), Bytes(0))
    assert sizes([0, 0, 5], ("low", "empty")) is None, (
        "one of two steps made an empty layer, and which is not told"
    )


@pytest.mark.parametrize(("free", "enough"), [(10, True), (9, False), (None, True)])
def test_room_is_refused_only_where_it_is_certain(free: int | None, enough: bool) -> None:
    room = Room(Bytes(10), None if free is None else Bytes(free), "/x")
    assert room.enough is enough


def test_progress_has_rate_and_remaining_time() -> None:
    assert eta(50_000_000, 150_000_000, 2.0) == "50 MB of 150 MB, 25 MB/s, 4 s left"
    assert eta(0, 150_000_000, 0.0) == "0 B of 150 MB"
    assert eta(50_000_000, None, 2.0) == "50 MB, 25 MB/s"
    assert eta(10_000_000, 100_000_000_000, 1.0).endswith("2.8 h left")
