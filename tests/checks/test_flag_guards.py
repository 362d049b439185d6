"""Rows of a registry that a flag is needed for, in builds with several engines."""

from __future__ import annotations

from typing import Any

from small_world import build, case, ruling, seen

from canserve.checks.architecture import REGISTERED
from canserve.checks.wish import parse_wish
from canserve.facts import Known
from canserve.subjects.build import Registered, Site
from canserve.verdict import No, Yes

ROW = Registered(
    "SmallForCausalLM",
    "eng.old",
    "Small",
    "old",
    Site("eng/old.py", 3),
    ("--backend old", "is_hip()"),
    ("old",),
)
BUILD = build(
    registry=Known({"SmallForCausalLM": ROW}, seen()),
    engine_flags=Known({"old": "--backend old", "new": "--backend new"}, seen()),
)


def judged(*flags: str) -> Any:
    return ruling(REGISTERED, case(the_build=BUILD, wish=parse_wish(flags)))


def test_a_flag_that_is_needed_is_a_condition() -> None:
    verdict = judged()
    assert isinstance(verdict, Yes)
    assert verdict.needs == ("--backend old",)
    assert verdict.because.endswith("if is_hip()")


def test_a_flag_that_was_given_is_none() -> None:
    verdict = judged("--backend", "old")
    assert isinstance(verdict, Yes)
    assert verdict.needs == ()


def test_a_flag_for_another_engine_leaves_none() -> None:
    assert isinstance(judged("--backend", "new"), No)
