"""What wraps a line in logs, and that nothing of the line itself is taken for it."""

from __future__ import annotations

import pytest

from canserve.probes.logs.unwrap import unwrap

WRAPPED = {
    "undated": b"ERROR [core.py:1136] RuntimeError: boom",
    "desktop": b"2026-11-30 04:27:20 RuntimeError: boom",
    "plain": b"RuntimeError: boom",
    "carriage return": b"RuntimeError: boom\r",
    "bar drawn over": b"Loading 10%\rRuntimeError: boom",
    "engine": b"ERROR 03-31 11:12:10 [core.py:12] RuntimeError: boom",
    "engine, older": b"ERROR 03-31 11:12:10 engine.py:389] RuntimeError: boom",
    "process": b"(Worker_TP1 pid=77) ERROR 10-08 09:19:30 [v1/x.py:671] RuntimeError: boom",
    "coloured": b"\x1b[1;36m(EngineCore_DP0 pid=3)\x1b[0;0m ERROR 01-28 06:36:45 [core.py:9] RuntimeError: boom",
    "ray": b"\x1b[36m(RayWorkerWrapper pid=2, ip=10.0.0.2)\x1b[0m RuntimeError: boom",
    "ranks in brackets": b"[2025-04-09 10:35:31 DP0 TP2 EP2] RuntimeError: boom",
    "rank": b"[rank1]: RuntimeError: boom",
    "mpi": b"[1,3]<stderr>:RuntimeError: boom",
    "trt": b"[01/13/2026-08:14:11] [TRT-LLM] [RANK 1] [E] RuntimeError: boom",
    "compose": b"engine-1  | RuntimeError: boom",
    "kubernetes": b"2026-01-28T06:36:45.123456789Z stderr F RuntimeError: boom",
    "journal": b"Aug 29 20:47:28 host engine[52949]: RuntimeError: boom",
    "docker": b'{"log":"RuntimeError: boom\\n","stream":"stderr","time":"2026-01-28T06:36:45.1Z"}',
    "docker, cut": b'{"log":"RuntimeError: boom\\n',
    "seconds": b"  41.17 RuntimeError: boom",
    "seconds and process": b" 141.17 (Worker pid=7) ERROR 11-30 04:27:09 [a.py:1] RuntimeError: boom",
}


@pytest.mark.parametrize("wrapping", WRAPPED)
def test_a_line_is_told_from_its_wrappings(wrapping: str) -> None:
    assert unwrap(WRAPPED[wrapping], 1).text == "RuntimeError: boom"


def test_who_said_it_and_when() -> None:
    line = unwrap(b"(Worker_TP1 pid=77) WARNING 01-02 00:00:03 [x.py:1] low", 9)
    assert (line.process, line.pid, line.who, line.rank, line.number) == ("Worker_TP1", "77", "77", 1, 9)
    assert line.at.clock == 24 * 3600 + 3
    assert line.mild
    assert unwrap(b"  41.17 x", 1).at.since_start == 41.17
    assert not unwrap(b"ERROR 01-02 00:00:03 [x.py:1] INFO is a word", 1).mild
    for text in (
        b"/v/torch/cuda/__init__.py:63: UserWarning: odd",
        b"WARNING: odd",
        b"INFO:     10.0.0.1 odd",
    ):
        assert unwrap(text, 1).mild
    assert not unwrap(b"RuntimeError: WARNING: odd", 1).mild


def test_numbers_of_processes_are_told_apart_by_what_they_run_in() -> None:
    lines = [
        b"(RayWorkerWrapper pid=7, ip=10.0.0.2) x",
        b"(RayWorkerWrapper pid=7, ip=10.0.0.3) x",
        b"node-a-1  | (Worker pid=7) x",
        b"[pod/engine-0/main] (Worker pid=7) x",
        b"(Worker pid=7) x",
    ]
    assert len({unwrap(line, 1).who for line in lines}) == len(lines)
    assert unwrap(b"node-a-1  | x", 1).process == "node-a-1"


@pytest.mark.parametrize(
    "text",
    ["ValueError: 3.50 is no size", "{'a': 1}", "[1, 2] is no group", "{" * 50000, "9" * 50000],
)
def test_text_that_only_looks_like_a_wrapping_stays(text: str) -> None:
    said = unwrap(text.encode(), 1).text
    assert said.endswith(text[-10:])


def test_bytes_that_are_no_text_are_kept_as_far_as_they_go() -> None:
    assert unwrap(b"\xff\xfe RuntimeError: \xc3", 1).text.strip().startswith("��")
