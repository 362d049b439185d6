"""What is paid for: every node, and every value by its weight when it is made."""

from __future__ import annotations

import pytest

from canserve.checks.chat_template.budget import Budget
from canserve.checks.chat_template.render import MACRO, render

LONG = list(range(1000))
"""Weighs 1001."""


def cost(source: str) -> int:
    budget = Budget()
    assert isinstance(render(source, {"x": LONG, "none": None}, budget), str)
    return Budget().left - budget.left


@pytest.mark.parametrize(
    ("source", "at_least", "below"),
    [
        ("{{ none or none or none or none }}", 7, 30),
        ("{% with %}{% endwith %}" * 100, 100, 250),
        ("{% set y = x %}" * 10, 20, 100),
        ("{% set y = x + x %}", 2001, 2100),
        ("{% set y = x[:] %}", 1001, 1100),
        ("{% set y = x == x %}", 2002, 2100),
        ("{% set y = x | length %}", 1001, 1100),
        ("{% set y = x | list %}", 2002, 2100),
        ("{% set y = 'a' * 10000 %}{% set z = y | trim('b' * 4096) %}", 10000, 11000),
        ("{% set y = 5 in x %}", 1001, 1100),
        ("{% set y = 5 is in x %}", 1001, 1100),
        ("{% set y = x.index(5) %}", 1001, 1100),
        ("{% set y = x | string %}", 1001, 1200),
        ("{{ x }}", 77, 200),
        ("{% for i in x %}{% endfor %}", 1000, 1100),
        ("{% macro m() %}{% endmacro %}", MACRO, 3 * MACRO),
        ("{% macro m() %}{% endmacro %}{% set y = m() %}", 2 * MACRO, 4 * MACRO),
    ],
)
def test_cost(source: str, at_least: int, below: int) -> None:
    assert at_least <= cost(source) < below
