"""Which release to use, from the index: what it does not hold is neither passed nor failed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from past import build

from canserve.api import BuildReport
from canserve.api.newest import held
from canserve.index.rebuild import NOT_HELD
from canserve.subjects.build import NOT_ASKED
from canserve.verdict import Finding, Skipped, Unknown, Yes, word


def report(*findings: Finding) -> BuildReport:
    return BuildReport(build(), "eng==1", None, findings, ())


def finding(name: str, because: str) -> Finding:
    return Finding(name, "model with eng==1", Unknown(because, "read it"), ())


@pytest.mark.parametrize("because", [f"{NOT_HELD}kernels of eng==1", NOT_ASKED.why])
def test_what_the_index_does_not_hold_is_not_judged(because: str) -> None:
    passed = Finding("architecture-registered", "model with eng==1", Yes("there"), ())
    judged = held(report(passed, finding("gpu-code-present", because)))
    assert word(judged.verdict) == "yes"
    assert [one.check for one in judged.findings] == ["architecture-registered"]
    assert [one.check for one in judged.skipped] == ["gpu-code-present"]
    assert judged.skipped[0].because.startswith("not judged: the index does not hold ")
    assert judged.skipped[0].because.endswith("--build reads the release itself")


def test_a_check_that_skips_for_want_of_it_says_so_too() -> None:
    reasons = {
        f"its compiled files: {NOT_ASKED.why}": "not judged: the index does not hold what this check reads",
        "no machine was named": "no machine was named",
    }
    for because, said in reasons.items():
        skip = Skipped("gpu-code-present", "eng==1", because)
        assert held(replace(report(), skipped=(skip,))).skipped[0].because.startswith(said)


def test_every_other_unknown_stays_one() -> None:
    judged = held(report(finding("config-parsable", "of transformers 5.0.0 not enough is recorded")))
    assert word(judged.verdict) == "unknown"
    assert judged.skipped == ()


def test_nothing_judged_is_no_yes() -> None:
    assert word(held(report(finding("gpu-code-present", NOT_ASKED.why))).verdict) == "unknown"
