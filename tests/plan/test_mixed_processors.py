"""Machines with different processors under one plan: each takes the wheel that is made for it."""

from __future__ import annotations

from pathlib import Path

import pytest

import canserve
from canserve.layout import Fixed
from canserve.plan.wishes import Wishes
from canserve.verdict import word


@pytest.mark.slow
@pytest.mark.network
def test_a_release_with_wheels_for_both_suits_both(shared: Path) -> None:
    wishes = Wishes(fixed=Fixed(tp=1, pp=2), alone=True)
    asked = canserve.Asked(on=("profile:h100", "profile:dgx-spark"), builds=("vllm==0.25.1",), wishes=wishes)
    report = canserve.plan(str(shared / "models" / "Qwen__Qwen3-8B"), asked)
    found = [one for one in report.plans.plans[0].findings if one.check == "cpu-arch-matches"]
    assert [word(one.verdict) for one in found] == ["yes"] * len(found)
    assert {"profile:h100", "profile:dgx-spark"} <= {one.about.rpartition(" on ")[2] for one in found}
