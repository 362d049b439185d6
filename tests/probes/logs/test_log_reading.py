"""What is kept of a log, and that nothing in it can make reading slow, large or wrong."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest
from deployment import MATCHER, diagnosed, reading

from canserve.probes.logs.opening import read_path
from canserve.probes.logs.reading import FLOOD, MAX_KEPT, MAX_PROCESSES

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"


def test_lines_are_numbered_from_one() -> None:
    found = reading("a\nb\n" + OOM + "\n")
    assert [event.line.number for event in found.events] == [3]
    assert found.lines == 3
    assert reading(OOM).lines == 1
    assert reading("").lines == 0


def test_a_flood_of_one_message_does_not_hide_another() -> None:
    flood = "".join(f"{OOM} at step {number}\n" for number in range(9 * FLOOD))
    found = reading(flood + "RuntimeError: NCCL error: unhandled system error\n")
    names = [event.signature.name for event in found.events if event.signature]
    assert names.count("out-of-memory") <= 3 * FLOOD
    assert names[-1] == "shared-memory-too-small"


def test_code_that_a_traceback_quotes_is_no_message() -> None:
    trace = 'Traceback (most recent call last):\n  File "/a/b.py", line 3, in f\n    raise ValueError("CUDA out of memory")\n'
    assert reading(trace).events == []
    assert [event.line.number for event in reading(trace + OOM).events] == [4]


def test_an_unknown_error_is_placed_by_its_innermost_frame() -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "/v/site-packages/vllm/v1/engine/core.py", line 3, in f\n    g()\n'
        '  File "/v/site-packages/vllm/model_executor/layers/quantization/new.py", line 9, in g\n    raise X\n'
        "ValueError: this cannot be packed in fives\n"
    )
    found = diagnosed(log=text)
    assert found.kind == "quantisation-vs-gpu"
    assert found.next_look == (
        "where it was raised: /v/site-packages/vllm/model_executor/layers/quantization/new.py:9",
    )
    outer = text.replace("layers/quantization/new.py", "layers/other.py")
    assert diagnosed(log=outer).kind is None


def test_an_assertion_without_words_is_told_by_its_code() -> None:
    trace = (
        "ERROR 11-30 04:27:20 [m.py:1] Traceback (most recent call last):\n"
        'ERROR 11-30 04:27:20 [m.py:1]   File "/v/site-packages/vllm/model_executor/models/x.py", line 9, in f\n'
        "ERROR 11-30 04:27:20 [m.py:1]     assert {} == 0\n"
        "ERROR 11-30 04:27:20 [m.py:1]            ^^^^^^^^^^^^^^^^^^^^\n"
        "ERROR 11-30 04:27:20 [m.py:1] AssertionError\n"
    )
    found = diagnosed(log=trace.format("self.total_num_kv_heads % tp_size"))
    assert found.kind == "parallel-layout"
    assert found.cause is not None
    assert found.cause.line == 5
    assert diagnosed(log=trace.format("moon % phases")).kind is None
    assert diagnosed(log=trace.format("self.hidden_size % group")).kind == "parallel-layout"


def test_a_traceback_that_was_pasted_without_its_head_is_placed_all_the_same() -> None:
    pasted = (
        '  File "/v/site-packages/vllm/platforms/interface.py", line 9, in get_device_name\n'
        "    raise NotImplementedError\n"
        "NotImplementedError"
    )
    assert diagnosed(log=pasted).kind == "image-probing-and-logs"
    far = pasted.replace("NotImplementedError\nN", "NotImplementedError\n" + "another line\n" * 9 + "N")
    assert diagnosed(log=far).kind is None


def test_the_last_line_is_read_though_nothing_ends_it() -> None:
    assert diagnosed(log="ValueError: the moon is full").cause is not None


def test_phases_facts_and_last_lines_of_every_process() -> None:
    found = reading(
        "(APIServer pid=1) INFO 11-30 04:27:09 [a.py:1] vLLM API server version 0.17.1\n"
        "(Worker pid=7) INFO 11-30 04:27:10 [p.py:2] world_size=2 rank=1 local_rank=0 "
        "distributed_init_method=tcp://10.0.0.1:29501 backend=nccl\n"
        "(Worker_TP1 pid=7) INFO 11-30 04:27:11 [m.py:3] Starting to load model x...\n"
    )
    worker = found.processes["7"]
    assert (worker.name, worker.rank, worker.phase, worker.depth) == ("Worker_TP1", 1, "loading", 2)
    assert worker.last is not None
    assert worker.last.number == 3
    assert found.facts["version"] == ["0.17.1"]
    assert found.facts["world"] == ["2"]
    assert max(found.engines, key=lambda name: found.engines[name]) == "vllm"


@pytest.mark.parametrize(
    "data",
    [
        os.urandom(1 << 20),
        bytes(1 << 20),
        b"Error:" * 400_000,
        b"(" * 2_000_000,
        b"a" * (9 << 20) + b"CUDA out of memory",
        b"\x1b]0;title\x07" * 50_000 + b"ERROR",
        b'{"log":"' * 200_000,
    ],
    ids=["noise", "zeros", "one long line", "brackets", "behind a long line", "escapes", "json"],
)
def test_hostile_bytes_are_read_to_their_end(data: bytes) -> None:
    found = reading(data)
    assert len(found.events) <= FLOOD + 1
    assert all(len(event.line.text) <= MAX_KEPT for event in found.events)


def test_more_processes_than_can_be_are_one() -> None:
    lines = "".join(
        f"(Worker pid={n}) {OOM} {n}\n(W{n} pid={n}) Starting to load model x{n}\n" for n in range(9000)
    )
    found = reading(lines)
    assert len(found.processes) <= MAX_PROCESSES + 1


def test_a_message_behind_a_very_long_line_is_found() -> None:
    found = reading(b"Error: " + b"a" * (9 << 20) + b" Error: " + b"a" * (1 << 20) + b" " + OOM.encode())
    assert [event.signature.name for event in found.events if event.signature] == ["out-of-memory"]


def test_a_folder_is_read_without_following_links(tmp_path: Path) -> None:
    deep = tmp_path / "logs" / "1" / "2" / "3" / "4" / "5"
    deep.mkdir(parents=True)
    (deep / "too-deep.log").write_text(OOM)
    (tmp_path / "secret").write_text(OOM)
    (tmp_path / "logs" / "rank0.log").write_text("fine\n")
    (tmp_path / "logs" / "link.log").symlink_to(tmp_path / "secret")
    (tmp_path / "logs" / "loop").symlink_to(tmp_path / "logs")
    (tmp_path / "logs" / "weights.bin").write_bytes(bytes(1000) + OOM.encode())
    (tmp_path / "logs" / "old.log.gz").write_bytes(gzip.compress(b"fine\n"))
    os.mkfifo(tmp_path / "logs" / "pipe")
    found = read_path(tmp_path / "logs", MATCHER, lambda message: None)
    assert [each.name for each in found if not each.problem] == ["old.log.gz", "rank0.log"]
    assert {each.name: each.problem.split(":")[0] for each in found if each.problem} == {
        "1/2/3/4/5": "deeper than 4 folders",
        "link.log": "a link",
        "loop": "a link",
        "pipe": "no regular file",
        "weights.bin": "no text",
    }
