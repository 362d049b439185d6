"""Samples of speed in the files of other tools."""

from __future__ import annotations

import json
from typing import Any

import pytest

from canserve.checks.served import rates
from canserve.subjects.served import Answer, Silence, Speeds, Step
from canserve.verify.samples import SamplesError, read_samples, write_samples

BENCH: dict[str, Any] = {
    "date": "20261130-120000", "backend": "vllm", "model_id": "m", "num_prompts": 3, "request_rate": "inf",
    "max_concurrency": 2, "duration": 4.0, "completed": 2, "failed": 1, "input_lens": [10, 12, 9],
    "output_lens": [3, 5, 0], "ttfts": [0.5, 0.25, 0.0], "itls": [[0.5, 0.5], [0.25, 0.25, 0.25, 0.25], []],
    "generated_texts": ["a", "b", ""], "errors": ["", "", "timed out"], "mean_ttft_ms": 375.0,
}  # fmt: skip
GUIDE: dict[str, Any] = {
    "metadata": {"version": 2},
    "benchmarks": [
        {
            "type_": "generative_benchmark",
            "config": {"strategy": {"type_": "concurrent", "streams": 4}},
            "duration": 9.0,
            "requests": {
                "successful": [
                    {
                        "request_start_time": 100.0, "request_end_time": 102.0, "time_to_first_token_ms": 500.0,
                        "inter_token_latency_ms": 250.0, "output_tokens": 7, "prompt_tokens": 30,
                    },
                    {
                        "request_start_time": 101.0, "request_end_time": 104.0, "time_to_first_token_ms": 1000.0,
                        "inter_token_latency_ms": 250.0, "output_tokens": 9, "prompt_tokens": 30,
                    },
                ],
                "incomplete": [],
                "errored": [{}],
            },
        }
    ],
}  # fmt: skip


def test_bench_serve_is_read() -> None:
    speeds = read_samples(json.dumps(BENCH), "b.json")
    (step,) = speeds.ramp
    assert (step.concurrency, step.seconds, rates.failed(step)) == (2, 4.0, 1)
    first = step.replies[0]
    assert isinstance(first, Answer)
    assert first.arrivals == (0.5, 1.0, 1.5)
    assert rates.throughput(step) == 2.0
    assert rates.decode_rate(first) == 2.0
    assert speeds.imported == "b.json"


def test_several_runs_a_line_each() -> None:
    speeds = read_samples(json.dumps(BENCH) + "\n" + json.dumps({**BENCH, "max_concurrency": 1}) + "\n", "b")
    assert [step.concurrency for step in speeds.ramp] == [2, 1]
    assert len(speeds.alone) == 3


def test_guidellm_is_read() -> None:
    (step,) = read_samples(json.dumps(GUIDE), "g.json").ramp
    assert (step.concurrency, step.seconds, rates.failed(step)) == (4, 4.0, 1)
    assert rates.throughput(step) == 4.0
    assert rates.decode_rate(step.replies[0]) == pytest.approx(4.0)
    GUIDE["benchmarks"][0]["config"] = {}
    (step,) = read_samples(json.dumps(GUIDE), "g.json").ramp
    assert step.concurrency == 2


def test_what_is_written_is_read_again() -> None:
    answer = Answer(
        "", "length", 2.0, prompt_tokens=7, completion_tokens=4, arrivals=(0.5, 1.0, 1.5, 2.0), streamed=True
    )
    speeds = Speeds(ramp=(Step(1, 2.0, (answer,)), Step(2, 2.5, (answer, Silence(2.5)))))
    text = write_samples(speeds, "m", "20261130-120000")
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["max_concurrency"] for line in lines] == [1, 2]
    assert [line["failed"] for line in lines] == [0, 1]
    assert {
        "ttfts",
        "itls",
        "input_lens",
        "output_lens",
        "median_tpot_ms",
        "p99_itl_ms",
        "mean_e2el_ms",
    } <= set(lines[0])
    assert lines[0]["median_tpot_ms"] == pytest.approx(500.0)
    back = read_samples(text, "f")
    assert [step.concurrency for step in back.ramp] == [1, 2]
    assert rates.decode(back) == rates.decode(Speeds(alone=(answer,)))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[1]", "no JSON object"),
        ("{}", "of no form"),
        ("[" * 100_000, "nested too deep|not JSON"),
        (json.dumps({"mean_ttft_ms": 3.0}), "--save-detailed"),
        (json.dumps({**BENCH, "itls": 3}), "not what"),
        (json.dumps({**BENCH, "ttfts": ["x", 1, 2]}), "not what"),
        (json.dumps({**BENCH, "duration": -1}), "not what"),
        (json.dumps({**BENCH, "input_lens": []}), "not what"),
        (json.dumps({"benchmarks": [{}]}), "not what"),
        (json.dumps({"benchmarks": []}), "no request"),
        (json.dumps({"speeds": None}), "not what"),
    ],
)
def test_other_files_are_refused_in_one_line(text: str, said: str) -> None:
    with pytest.raises(SamplesError, match=said) as error:
        read_samples(text, "f")
    assert "\n" not in str(error.value)
