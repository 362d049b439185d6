"""Each fault of a server turns exactly its finding to no (or unknown, where more cannot be said); health turns none."""

from __future__ import annotations

import os

import pytest

from canserve.api.verifying import VerifyReport, VerifyWishes, verify
from canserve.verdict import word
from canserve.verify.limits import Limits
from stub_server import serving

FAST = Limits(
    total=60.0, patience=3.0, connect=2.0, settle=1.0, crowd=12, copies=12, longest=4096, decode=24, samples=2,
    prefill=600, step=2.0, ramp=(1, 2, 4),
)  # fmt: skip

ROUNDS = int(os.environ.get("CANSERVE_ROUNDS", "1"))
"""How often each is tried: chance and threads must not decide."""

NO = {
    "starting": "ready",
    "redirect": "ready",
    "html": "ready",
    "key": "ready",
    "model": "right-model",
    "answers": "answers",
    "garbage": "answers",
    "huge": "answers",
    "silent": "answers",
    "slow-loris": "answers",
    "no-done": "streams",
    "no-finish": "streams",
    "one-piece": "streams",
    "wrong": "answer-correct",
    "warm": "greedy-repeats",
    "batch": "batch-agrees",
    "lost": "batch-agrees",
    "exclaims": "no-repetition",
    "loops": "no-repetition",
    "drifts": "language-kept",
    "runs-on": "ends-by-itself",
    "turn": "ends-by-itself",
    "stop": "stop-honoured",
    "tags": "reasoning-in-its-field",
    "unclosed": "reasoning-closed",
    "tool-text": "tool-call-parsed",
    "tool-json": "tool-call-parsed",
    "tool-stream": "tool-call-streamed",
    "tool-lost": "tool-call-streamed",
    "schema": "schema-kept",
    "logprobs": "logprobs-sane",
    "needle": "long-prompt-sane",
    "long-garbage": "long-prompt-sane",
    "too-long": "too-long-refused",
    "cut": "too-long-refused",
    "rank": "every-rank-alive",
    "replica": "every-rank-alive",
    "replica-nonsense": "every-rank-alive",
    "cancel": "cancel-frees-slot",
    "crowd": "overload-orderly",
    "dies": "overload-orderly",
    "metrics": "metrics-present",
}
"""Fault -> the check that says no."""

ALSO = {
    "wrong": {"batch-agrees", "every-rank-alive"},
    "tool-text": {"tool-call-streamed"},
    "metrics": {"cancel-frees-slot"},
}
"""What has to say that it cannot tell, or no as well, because the same answers are wrong there."""


def judged(
    *faults: str, reasons: bool = False, tokens_per_second: float = 2000.0, **wishes: object
) -> VerifyReport:
    model = "tiny" if "model" in faults else None
    with serving(*faults, reasons=reasons, tokens_per_second=tokens_per_second) as stub:
        return verify(stub.url, VerifyWishes(limits=FAST, model=model, **wishes))  # type: ignore[arg-type]


def words(report: VerifyReport, wanted: str) -> set[str]:
    return {finding.check for finding in report.findings if word(finding.verdict) == wanted}


def because(report: VerifyReport) -> dict[str, str]:
    return {
        f.check: f"{word(f.verdict)}: {f.verdict.because}"
        for f in report.findings
        if word(f.verdict) != "yes"
    }


@pytest.mark.parametrize("turn", range(ROUNDS))
@pytest.mark.parametrize("reasons", [False, True])
def test_a_healthy_server_has_no_fault(reasons: bool, turn: int) -> None:
    report = judged(reasons=reasons)
    assert because(report) == {}
    skipped = {skip.check for skip in report.skipped}
    assert skipped == {"speed-near-bound"} | (
        set() if reasons else {"reasoning-in-its-field", "reasoning-closed"}
    )
    assert len(words(report, "yes")) == 23 - (0 if reasons else 2)


@pytest.mark.slow
@pytest.mark.parametrize("turn", range(ROUNDS))
@pytest.mark.parametrize("fault", NO)
def test_a_fault_is_found_and_nothing_else(fault: str, turn: int) -> None:
    report = judged(fault, reasons=fault == "unclosed")
    allowed = {NO[fault]} | ALSO.get(fault, set())
    assert NO[fault] in words(report, "no"), because(report)
    assert words(report, "no") <= allowed, because(report)
    assert words(report, "unknown") <= ALSO.get(fault, set()), because(report)
