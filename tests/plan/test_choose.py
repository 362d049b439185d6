"""Which layouts are planned, and the order of plans."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from plan_world import placement, quantity, serving

from canserve.api import Options, read_machines, read_model
from canserve.facts import Cause, Known, Missing
from canserve.layout import Fixed, Layouts, Question, hosts, layouts
from canserve.plan.choose import MOST_RANKS, ranked, worth_planning
from canserve.plan.plan import Plan, Speed
from canserve.plan.wishes import Goal, Wishes
from canserve.subjects.parallel import Parallel
from canserve.verdict import Finding, No, Unknown, Verdict, Yes

NONE = Missing(Cause.UNAVAILABLE, "not known")


@pytest.fixture(scope="module")
def founding(root: Path) -> object:
    return read_model(str(root / "examples" / "founding" / "model"), Options(offline=True))


def spread(model: object, machines: str, count: int, wishes: Wishes | None = None) -> list[Parallel]:
    wishes = wishes or Wishes()
    where = hosts(read_machines(machines) * count)
    found: Layouts = layouts(Question(model, where, "vllm", "0.25.1", fixed=wishes.fixed))  # type: ignore[arg-type]
    return [layout.placement.parallel for layout in worth_planning(found, wishes)]


def test_two_small_machines(founding: object) -> None:
    degrees = spread(founding, "profile:dgx-spark", 2)
    assert {Parallel(), Parallel(2), Parallel(1, 2), Parallel(2, 1, 1, 2)} <= set(degrees)
    assert len(degrees) == len(set(degrees)) <= 8


def test_what_is_fixed_is_taken(founding: object) -> None:
    assert spread(founding, "profile:h200", 1, Wishes(fixed=Fixed(tp=4, pp=2, dp=1, ep=1))) == [
        Parallel(4, 2)
    ]
    assert spread(founding, "profile:h200", 1, Wishes(fixed=Fixed(tp=7))) == []
    assert {p.ep for p in spread(founding, "profile:h200", 1, Wishes(spread=True))} == {2, 4, 8}


def test_more_than_the_machines_have_is_no_layout(founding: object) -> None:
    for fixed in (Fixed(tp=2), Fixed(tp=2, pp=1, dp=1, ep=1), Fixed(pp=2), Fixed(dp=4)):
        assert spread(founding, "profile:dgx-spark", 1, Wishes(fixed=fixed)) == []


def test_a_model_of_unknown_shape_is_planned_once(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "nobody_knows", "architectures": ["XForCausalLM"]}')
    assert spread(read_model(str(tmp_path), Options(offline=True)), "profile:h200", 1) == [Parallel()]


def test_many_machines_stay_few_layouts(founding: object) -> None:
    degrees = spread(founding, "profile:h200", 1000)
    assert len(degrees) < 200
    assert 64 < max(parallel.ranks for parallel in degrees) <= MOST_RANKS


def plan(verdict: Verdict, name: str, ranks: int = 1, **serve: object) -> Plan:
    return Plan(
        "m", name, "e", "1", placement(Parallel(ranks), ranks), {}, Known(serving(ranks, **serve)), NONE, NONE,
        (Finding("c", "a", verdict, ()),),
    )  # fmt: skip


def order(goal: Goal, *plans: Plan) -> str:
    return "".join(plan.build for plan in ranked(plans, goal))


def test_a_yes_comes_first_then_the_goal_then_fewer_accelerators() -> None:
    yes, no, unknown = Yes("y"), No("n", "f"), Unknown("u", "a")
    assert order("latency", plan(no, "n"), plan(unknown, "u"), plan(yes, "y")) == "yun"
    fast = replace(plan(yes, "f"), speed=Known(speed(90, 100)))
    busy = replace(plan(yes, "b"), speed=Known(speed(50, 900)))
    long = replace(plan(yes, "l", max_context=quantity(9e6)), speed=Known(speed(20, 30)))
    assert order("latency", busy, long, fast) == "fbl"
    assert order("throughput", fast, long, busy) == "bfl"
    assert order("context", busy, long, fast) == "lfb"
    assert order("latency", plan(yes, "2", 2), plan(yes, "1")) == "12"


def speed(decode: float, busy: float) -> Speed:
    return Speed(quantity(decode), 100.0, quantity(busy), quantity(1000), 2000.0)
