"""Degrees from `--tp` and its like and from engine options, brought together."""

from __future__ import annotations

import pytest

from canserve.api import SpecError
from canserve.api.planned_degrees import asked_for, refuse, refuse_decided
from canserve.checks.wish import parse_wish
from canserve.layout import Fixed
from canserve.plan.wishes import Wishes


def together(fixed: Fixed, options: str, gpus: int = 8, spread: bool = False) -> Wishes:
    alone = any((fixed.tp, fixed.pp, fixed.dp))
    return asked_for(Wishes(fixed=fixed, alone=alone, spread=spread), parse_wish(options.split()), gpus)


@pytest.mark.parametrize(
    ("fixed", "options", "expected"),
    [
        (Fixed(), "", Fixed()),
        (Fixed(tp=2), "", Fixed(2, 1, 1, 1)),
        (Fixed(ep=4), "", Fixed(ep=4)),
        (Fixed(), "--tensor-parallel-size 2", Fixed(2, 1, 1, 1)),
        (Fixed(tp=2), "--enable-expert-parallel", Fixed(2, 1, 1, 2)),
        (Fixed(tp=2, dp=2), "--enable-expert-parallel", Fixed(2, 1, 2, 4)),
        (Fixed(dp=2), "--tensor-parallel-size 2", Fixed(2, 1, 2, 1)),
        (Fixed(tp=2), "--tensor-parallel-size 2", Fixed(2, 1, 1, 1)),
        (Fixed(tp=4, ep=4), "--enable-expert-parallel", Fixed(4, 1, 1, 4)),
        (Fixed(), "--tp-size 8 --ep-size 4", Fixed(8, 1, 1, 4)),
        (Fixed(dp=2), "--tp-size 4 --enable-ep-moe", Fixed(4, 1, 2, 4)),
        (Fixed(), "--tp 8 --dp 8 --ep 8 --enable-dp-attention", Fixed(1, 1, 8, 8)),
        (Fixed(tp=8), "--enable-dp-attention", Fixed(8, 1, 1, 1)),
    ],
)
def test_each_degree_once(fixed: Fixed, options: str, expected: Fixed) -> None:
    assert together(fixed, options).fixed == expected


def test_a_bare_wish_to_spread_experts_leaves_the_other_degrees_open() -> None:
    wishes = together(Fixed(), "--enable-expert-parallel")
    assert wishes.fixed == Fixed() and wishes.spread
    assert not together(Fixed(), "--enable-expert-parallel", gpus=1).spread
    assert together(Fixed(tp=4), "", spread=True).fixed == Fixed(4, 1, 1, 4)


@pytest.mark.parametrize(
    ("fixed", "options", "said"),
    [
        (Fixed(tp=2), "--tensor-parallel-size 4", "tp 2 was asked for, .* tensor_parallel_size makes it 4"),
        (Fixed(pp=2), "--pipeline-parallel-size 4", "pp 2 was asked for"),
        (Fixed(dp=2), "--data-parallel-size 4", "dp 2 was asked for"),
        (Fixed(tp=8, ep=4), "--enable-expert-parallel", "ep 4 was asked for, .* makes it 8"),
        (Fixed(), "--tp-size 8 --dp-size 8 --enable-dp-attention", "attention alone data parallel"),
        (Fixed(), "--tensor-parallel-size two", "takes a number from 1"),
    ],
)
def test_what_contradicts_itself_is_a_slip_of_the_pen(fixed: Fixed, options: str, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        together(fixed, options)


@pytest.mark.parametrize("name", ["tensor_parallel_size", "tp_size", "enable_expert_parallel", "dp"])
def test_a_what_if_keeps_the_layout(name: str) -> None:
    with pytest.raises(SpecError, match=f"keeps the layout, and {name}"):
        refuse({"max_num_seqs": 4, name: 2})


def test_what_a_plan_writes_itself_is_no_option() -> None:
    refuse_decided({"max_num_seqs": 4, "host": "0.0.0.0"})
    for name in ("model", "model_path", "nnodes", "dist_init_addr"):
        with pytest.raises(SpecError, match=f"the plan writes {name} itself"):
            refuse_decided({name: 2})
