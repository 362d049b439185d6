"""Streams of events and pages of metrics, whole and broken."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from canserve.checks.served import prometheus
from canserve.verify.sse import StreamError, events

STREAM = ': hello\r\nevent: x\r\ndata: {"a": 1}\r\n\r\ndata: two\ndata:  lines\n\ndata:né\r\rdata: [DONE]\n\n'.encode()
WANTED = ['{"a": 1}', "two\n lines", "né", "[DONE]"]


def cut(data: bytes, *places: int) -> list[bytes]:
    edges = [0, *sorted(places), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]


def test_a_stream_reads_the_same_wherever_it_is_cut() -> None:
    assert list(events([STREAM], 1000, 1000)) == WANTED
    for place in range(len(STREAM) + 1):
        assert list(events(cut(STREAM, place), 1000, 1000)) == WANTED
    assert list(events([bytes([byte]) for byte in STREAM], 1000, 1000)) == WANTED


@given(st.binary(max_size=400), st.lists(st.integers(0, 400), max_size=6))
def test_any_bytes_are_events_or_an_error(data: bytes, places: list[int]) -> None:
    whole = list(events([data], 10_000, 10_000))
    assert list(events(cut(data, *(min(p, len(data)) for p in places)), 10_000, 10_000)) == whole


def test_lines_and_streams_have_an_end() -> None:
    with pytest.raises(StreamError, match="line of more than 100"):
        list(events([b"data: " + b"a" * 60, b"a" * 60], 100, 10_000))
    with pytest.raises(StreamError, match="line of more than 100"):
        list(events([b"data: " + b"a" * 160 + b"\n"], 100, 10_000))
    with pytest.raises(StreamError, match="stream of more than 50"):
        list(events([b"data: a\n\n"] * 10, 100, 50))


def test_a_stream_that_ends_in_the_middle_keeps_what_came() -> None:
    assert list(events([b"data: a\n\ndata: b"], 100, 100)) == ["a", "b"]


METRICS = """# HELP x y
vllm:num_requests_running{engine="0",model_name="a\\"b}"} 2.0
vllm:num_requests_running{engine="1",model_name="c"} 1e0 1700000000
vllm:generation_tokens_total{engine="0"} 5
vllm:generation_tokens_total{engine="1"} 7.5
vllm:broken{engine="0" 5
other NaN
"""


def test_metrics_are_read_by_replica() -> None:
    assert prometheus.running(METRICS) == 3.0
    assert prometheus.made(METRICS) == {"0": 5.0, "1": 7.5}
    assert len(list(prometheus.samples(METRICS))) == 5


@pytest.mark.parametrize("text", ["", "<html>", "a" * 100_000, "x{" * 5000, 'x{a="' + "\\" * 4000, "up 1\n"])
def test_other_pages_count_nothing(text: str) -> None:
    assert prometheus.running(text) is None
    assert prometheus.made(text) == {}


@pytest.mark.parametrize(
    ("page", "count"),
    [("sglang:num_running_reqs 4\n", 4.0), ("llamacpp:requests_processing 0\n", 0.0)],
)
def test_other_engines_metrics(page: str, count: float) -> None:
    assert prometheus.running(page) == count
