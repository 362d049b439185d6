"""Whether a candidate would fail as one before it did."""

from __future__ import annotations

from dataclasses import replace

import pytest

from canserve.plan.plan import Plan
from canserve.plan.repeats import Failed, repeats
from canserve.rules.failures import KINDS
from canserve.subjects.launch import Process
from canserve.subjects.parallel import Parallel
from made_plans import made


def plan(build: str = "b1", machines: tuple[str, ...] = ("a",), port: int = 8000, tp: int = 1) -> Plan:
    ranks = iter(range(100))
    processes = [
        Process(name, tuple(next(ranks) for _ in range(tp)), ("vllm", "serve", "/m", "--port", str(port)))
        for name in machines
    ]
    return made(processes, build=build)


ONE, TWO = plan(), plan(machines=("a", "b"))


@pytest.mark.parametrize(
    ("failed", "other", "same"),
    [
        (Failed(ONE, 1, "w", "architecture-not-in-registry"), plan(tp=2), True),
        (Failed(ONE, 1, "w", "architecture-not-in-registry"), plan("b2"), False),
        (Failed(TWO, 1, "w", "multi-node-and-collectives"), plan(machines=("a", "c")), True),
        (Failed(TWO, 1, "w", "multi-node-and-collectives"), ONE, False),
        (Failed(TWO, 1, "w", "multi-node-and-collectives"), plan("b2", ("a", "b")), False),
        (Failed(plan(tp=2), 1, "w", "multi-node-and-collectives"), TWO, True),  # the same degrees: nothing is known
        (Failed(plan(tp=4), 1, "w", "multi-node-and-collectives"), TWO, False),
        (Failed(plan(tp=2), 1, "w", "memory"), ONE, True),
        (Failed(ONE, 1, "w", "memory"), plan(tp=2), False),
        (Failed(plan(tp=2), 1, "w", "memory"), replace(ONE, options={"max_model_len": 512}), False),
        (Failed(plan(tp=3), 1, "w", "parallel-layout"), plan("b2", tp=3), True),
        (Failed(plan(tp=3), 1, "w", "parallel-layout"), plan(tp=2), False),
        (Failed(TWO, 1, "w", stalled=True), plan(machines=("a", "b"), tp=2), True),
        (Failed(TWO, 1, "w", stalled=True), ONE, False),
        (Failed(ONE, 1, "w", stalled=True), plan(), True),
        (Failed(ONE, 1, "w"), plan(), True),
        (Failed(ONE, 1, "w"), plan(tp=2), False),
        (Failed(ONE, 1, "w", step="claim", machine="a"), plan("b2", ("a", "b")), True),
        (Failed(ONE, 1, "w", step="claim", machine="a"), plan("b2", ("b",)), False),
        (Failed(ONE, 1, "w", step="port-free", machine="a", port=8000), plan("b2"), True),
        (Failed(ONE, 1, "w", step="port-free", machine="a", port=8000), plan("b2", port=8001), False),
        (Failed(ONE, 1, "w", step="image-held", machine="a"), plan(tp=2), True),
        (Failed(ONE, 1, "w", step="carry", machine="a"), plan("b2"), False),
        (Failed(ONE, 1, "w", step="start", machine="a"), plan(tp=2), False),
        (Failed(ONE, 1, "w", step="start", machine="a"), plan(), True),
    ],
)  # fmt: skip
def test_what_would_fail_likewise(failed: Failed, other: Plan, same: bool) -> None:
    why = repeats(failed, other)
    assert (why is not None) is same, why
    assert why is None or ("candidate 1" in why and why.endswith(": w"))


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_whatever_the_cause_another_build_on_other_machines_is_tried(kind: str) -> None:
    other = replace(plan("b2", ("c", "d")), engine="sglang")
    assert repeats(Failed(TWO, 1, "w", kind), other) is None


def test_degrees_are_those_of_the_layout() -> None:
    assert plan(tp=2).parallel == Parallel(tp=2) == TWO.parallel
