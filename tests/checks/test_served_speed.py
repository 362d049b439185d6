"""speed-near-bound: rates from raw samples, and what a slow one looks like."""

from __future__ import annotations

from dataclasses import replace

import pytest

from canserve.checks.served import rates, speed
from canserve.facts import Cause, Evidence, Fact, Known, Missing
from canserve.subjects.served import Answer, Expected, Reply, Served, Silence, Speeds, Step
from canserve.verdict import Finding, No, Skipped, Unknown, Verdict, Yes

LOOK = (Evidence("here", "measured", "so"),)
PLAN = Expected(
    decode=(30.0, 25.0, 33.0), decode_bound=34.0, prefill=(900.0, 500.0, 1500.0), limit="memory bandwidth",
    machines=2, ranks=2, layers=48, model="org/model",
)  # fmt: skip
FIRST: Fact[Reply] = Known(Answer("hi", "stop", 0.1), LOOK)


def stream(rate: float, tokens: int = 41, pieces: int = 41, first: float = 0.2, prompt: int = 20) -> Answer:
    step = (tokens / pieces) / rate
    times = tuple(first + step * n for n in range(pieces))
    return Answer(
        "", "length", times[-1], prompt_tokens=prompt, completion_tokens=tokens, arrivals=times, streamed=True
    )


def judged(rate: float, plan: Expected = PLAN) -> Verdict:
    speeds = Known(Speeds(alone=(stream(rate), stream(rate * 1.01), stream(rate * 0.99))), LOOK)
    served = Served("http://x", first=FIRST, speeds=speeds, expected=Known(plan, LOOK))
    finding = speed.CHECK.judge(served)
    assert isinstance(finding, Finding)
    assert finding.evidence
    return finding.verdict


def test_as_expected() -> None:
    verdict = judged(27.0)
    assert isinstance(verdict, Yes)
    assert verdict.because.startswith("27 tok/s of at most 34: memory-bound, as expected")
    assert (
        "it waits for starting kernels, as expected"
        in judged(27.0, replace(PLAN, limit="starting kernels")).because
    )


def test_a_tenth_of_the_bound_over_two_machines_is_tcp() -> None:
    verdict = judged(3.4)
    assert isinstance(verdict, No)
    assert "a tenth of the bound: looks like TCP instead of RDMA" in verdict.because
    assert "rdma-usable" in verdict.fix


def test_a_little_slow_over_two_machines_is_not_said_to_be_tcp() -> None:
    verdict = judged(12.0, replace(PLAN, layers=480))
    assert isinstance(verdict, No)
    assert "TCP" not in verdict.because


def test_slow_on_one_machine() -> None:
    alone = judged(3.4, replace(PLAN, machines=1, ranks=1))
    assert isinstance(alone, No)
    assert "clocks" in alone.because
    several = judged(3.4, replace(PLAN, machines=1, ranks=4))
    assert isinstance(several, No)
    assert "all-reduces" in several.because


def test_between_the_interval_and_half_of_it_is_unknown() -> None:
    assert isinstance(judged(20.0), Unknown)
    assert isinstance(judged(24.5), Yes)


def test_faster_than_physics_is_unknown() -> None:
    verdict = judged(70.0)
    assert isinstance(verdict, Unknown)
    assert "speculatively" in verdict.ask


def test_without_plan_samples_or_stream() -> None:
    served = Served("http://x", first=FIRST, speeds=Known(Speeds(alone=(stream(20),)), LOOK))
    assert isinstance(speed.CHECK.judge(served), Skipped)
    planned = replace(served, expected=Known(PLAN, LOOK))
    none = speed.CHECK.judge(replace(planned, speeds=Known(Speeds(alone=(Silence(3.0),)), LOOK)))
    assert isinstance(none, Finding)
    assert isinstance(none.verdict, Unknown)
    gone = Missing(Cause.UNAVAILABLE, "the plan states no speed: x", LOOK)
    lost = speed.CHECK.judge(replace(planned, expected=gone))
    assert isinstance(lost, Finding)
    assert isinstance(lost.verdict, Unknown)


def test_rates_count_tokens_not_pieces() -> None:
    assert rates.decode_rate(stream(50.0)) == pytest.approx(50.0)
    assert rates.decode_rate(stream(50.0, tokens=82, pieces=41)) == pytest.approx(50.0)  # two tokens a piece
    assert rates.decode_rate(Silence(1.0)) is None
    assert rates.decode_rate(stream(50.0, pieces=2, tokens=2)) is None


def test_prefill_is_the_difference_of_long_and_short() -> None:
    short = (stream(50, first=0.1, prompt=20), stream(50, first=0.1, prompt=20))
    speeds = Speeds(
        short=short, long=(stream(50, first=1.1, prompt=2020), stream(50, first=1.1, prompt=2020))
    )
    found = rates.prefill(speeds)
    assert found is not None
    assert found.median == pytest.approx(2000.0)
    assert rates.prefill(Speeds(short=short, long=short)) is None
    assert rates.prefill(Speeds()) is None


def test_throughput_of_a_step_counts_what_was_answered() -> None:
    step = Step(2, 2.0, (stream(50), Silence(2.0)))
    assert rates.throughput(step) == pytest.approx(41 / 2.0)
    assert rates.failed(step) == 1
    assert rates.top((step, Step(4, 1.0, (stream(50),) * 4))) == Step(4, 1.0, (stream(50),) * 4)
    assert rates.top(()) is None


@pytest.mark.parametrize(
    ("share", "said"), [(0.1, "a tenth"), (0.5, "half"), (0.33, "a third"), (0.07, "7.0%"), (0, "nothing")]
)
def test_shares_in_words(share: float, said: str) -> None:
    assert speed._share(share) == said
