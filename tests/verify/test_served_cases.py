"""Servers that are not broken: small models, dummy weights, what is not offered; and what is expected of them."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from test_served_faults import FAST, because, judged, words

import canserve
from canserve.api.verifying import VerifyWishes, verify
from canserve.subjects.served import Expected
from canserve.verdict import word
from stub_server import serving


def test_a_small_model_is_not_a_broken_one() -> None:
    report = judged("small", "weak")
    assert words(report, "no") == set(), because(report)
    assert {"answer-correct", "tool-call-parsed", "long-prompt-sane"} <= words(report, "unknown")
    assert "every-rank-alive" in words(report, "yes")


def test_dummy_weights_that_were_announced() -> None:
    report = judged("flat", expect=frozenset({"dummy"}))
    assert because(report) == {}
    skipped = {skip.check for skip in report.skipped}
    assert {"answer-correct", "language-kept", "tool-call-parsed"} <= skipped
    assert {
        "streams",
        "schema-kept",
        "logprobs-sane",
        "cancel-frees-slot",
        "too-long-refused",
        "every-rank-alive",
    } <= words(report, "yes")


def test_dummy_weights_that_nobody_announced_are_seen() -> None:
    report = judged("flat")
    assert words(report, "no") == set(), because(report)
    assert words(report, "unknown") == {"answer-correct"}
    assert "as likely as any other" in because(report)["answer-correct"]


def test_nonsense_that_is_sure_of_itself_is_no_dummy() -> None:
    assert "answer-correct" in words(judged("dummy"), "no")


@pytest.mark.parametrize(
    ("fault", "expect", "checks"),
    [
        ("no-tools", "tools", {"tool-call-parsed", "tool-call-streamed"}),
        ("no-logprobs", "logprobs", {"logprobs-sane"}),
        ("no-metrics", "metrics", {"metrics-present"}),
    ],
)
def test_what_is_not_offered_is_a_no_only_where_it_is_expected(
    fault: str, expect: str, checks: set[str]
) -> None:
    report = judged(fault)
    assert words(report, "no") == set(), because(report)
    assert checks <= {skip.check for skip in report.skipped}
    assert words(judged(fault, expect=frozenset({expect})), "no") == checks


def test_a_crowd_may_be_turned_away_politely() -> None:
    report = judged("polite")
    assert because(report) == {}
    crowd = next(finding for finding in report.findings if finding.check == "overload-orderly")
    assert "refused with 429" in crowd.verdict.because


def test_an_answer_that_was_held_back_is_unknown() -> None:
    report = judged("buffered", tokens_per_second=8.0)
    assert "streams" not in words(report, "yes") | words(report, "no"), because(report)


def test_a_count_that_is_only_stale_is_unknown() -> None:
    report = judged("stale")
    assert words(report, "no") == set(), because(report)
    assert words(report, "unknown") == {"cancel-frees-slot"}


def test_a_replica_that_hangs_is_one_finding() -> None:
    with serving("half") as stub:
        report = verify(stub.url, VerifyWishes(limits=replace(FAST, patience=1.0, total=90.0)))
    assert words(report, "no") == {"every-rank-alive"}, because(report)
    assert "streams" in words(report, "unknown") | words(report, "yes")


def test_waiting_for_a_start_does_not_use_up_the_time() -> None:
    with serving("starting") as stub:
        timer = threading.Timer(4.0, lambda: setattr(stub, "faults", frozenset()))
        timer.start()
        limits = replace(FAST, total=3.0, ramp=())
        report = verify(stub.url, VerifyWishes(limits=limits, wait=30))
        timer.join()
    assert "answers" in words(report, "yes"), because(report)


def test_a_plan_says_what_to_expect(tmp_path: Path) -> None:
    plans = canserve.plan(
        "examples/founding/model", canserve.Asked(on=("2xprofile:dgx-spark",), builds=("vllm==0.17.1",))
    )
    from canserve.api.promised import expected_of
    from canserve.facts import Known
    from canserve.render.plan_structure import plans_output
    from canserve.render.structure import to_json

    path = tmp_path / "plan.json"
    path.write_text(to_json(plans_output(plans.plans.best())))
    found = expected_of(plans.plans.plans[0], "plan.json")
    assert isinstance(found, Known)
    assert isinstance(found.value, Expected)
    assert found.value.decode[1] <= found.value.decode[0] <= found.value.decode[2] <= found.value.decode_bound
    with serving() as stub:
        report = verify(stub.url, VerifyWishes(limits=FAST, plan=path))
    speed = next(finding for finding in report.findings if finding.check == "speed-near-bound")
    assert "tok/s of at most" in speed.verdict.because
    model = next(finding for finding in report.findings if finding.check == "right-model")
    assert word(model.verdict) == "unknown"  # the stub does not say what stands behind its name


def test_a_file_that_is_no_plan(tmp_path: Path) -> None:
    for text in ("", "{}", json.dumps({"version": 1, "plans": []})):
        (tmp_path / "p").write_text(text)
        with pytest.raises(canserve.SpecError):
            verify("http://127.0.0.1:9", VerifyWishes(plan=tmp_path / "p"))


def test_the_public_name_is_the_function() -> None:
    assert canserve.verify is verify
