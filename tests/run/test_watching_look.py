"""What a look's answers say: logs of containers that come in pieces, the kernel's tables, hostile ones too."""

from __future__ import annotations

import os
import signal
import struct
import subprocess

from hypothesis import given
from hypothesis import strategies as st

from canserve.api.diagnosing import shipped_matcher
from canserve.commands import watching
from canserve.probes.logs.tracking import FIRST, LAST, Tracker
from canserve.run.watching_kernel import counters, lasting, trees
from canserve.run.watching_look import Log, fresh
from canserve.run.watching_sockets import understood
from canserve.subjects.progress import Counters
from canserve.transport.frames import Answer
from canserve.transport.reach import Look


def answer(text: str | bytes, whole: bool = True) -> Answer:
    return Answer(0, text.encode() if isinstance(text, str) else text, "", whole)


def tracker(*ranks: int, engine: str = "vllm") -> Tracker:
    return Tracker(shipped_matcher(), engine, ranks or (0,))


LINES = [f"2026-11-30T17:00:0{n // 3}.{n:09d}Z line {n}" for n in range(9)]
SAME = [f"2026-11-30T17:00:05.5Z {word}" for word in ("a", "b", "b", "c")]


def test_a_log_of_a_container_is_read_once_however_it_is_cut() -> None:
    log, read = Log(tracker()), b""
    whole = [*LINES, *SAME]
    for end in (3, 3, 5, 11, 12, 13):
        since = log.since
        at = 0 if since is None else next(n for n, line in enumerate(whole) if line.startswith(since))
        read += fresh(log, answer("\n".join([*whole[at:end], ""])))
    assert read.decode().splitlines() == [line.partition(" ")[2] for line in whole]


def test_a_cut_answer_ends_at_its_last_whole_line() -> None:
    log = Log(tracker())
    assert fresh(log, answer("2026-11-30T17:00:00Z one\n2026-11-30T17:00:01Z tw", whole=False)) == b"one\n"
    assert fresh(log, answer("2026-11-30T17:00:00Z one\n2026-11-30T17:00:01Z two\n")) == b"two\n"
    assert fresh(log, answer("")) == b""


@given(st.lists(st.binary(max_size=60), max_size=20), st.booleans())
def test_whatever_a_container_engine_prints(lines: list[bytes], whole: bool) -> None:
    log = Log(tracker())
    log.tracker.feed(fresh(log, answer(b"\n".join(lines), whole)))
    assert log.tracker.told.news >= 0


def test_the_tree_of_processes_is_that_of_the_kernel() -> None:
    child = subprocess.Popen(["sh", "-c", "sleep 1000 & wait"], start_new_session=True)
    try:
        script = watching.tree([f'roots="7:{child.pid}"'])
        done = subprocess.run(["sh", "-c", script], capture_output=True, check=True, timeout=60)
        found = trees(Look("m", "how", "when", {"tree": answer(done.stdout)}))
        assert [line.name for line in sorted(found[7].lines, key=lambda line: line.pid)] == ["sh", "sleep"]
        assert all(
            line.memory > 0 and line.state in "SRD" and line.read is not None for line in found[7].lines
        )
        told = counters(found[7], False, None)
        assert told is not None and told.processes == 2 and told.written is not None and told.builders == 0
        none = subprocess.run(["sh", "-c", watching.tree([])], capture_output=True, check=True, timeout=60)
        assert trees(Look("m", "how", "when", {"tree": answer(none.stdout)})) == {}
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait(20)


def test_of_another_users_processes_its_control_group_tells() -> None:
    line = "3 41 - - - - 1 S 250 1000 7 VLLM::Worker_TP"
    found = trees(Look("m", "", "", {"tree": answer(f"clock 100\npage 4096\n{line}\ngroup 3 5000 900\n")}))
    assert counters(found[3], False, 12) == Counters(2.5, 4_096_000, 5000, 900, 7, 0, 12, 1)
    assert counters(found[3], True, None) == Counters(0, 0, None, None, 0, 0, None, 0), (
        "a cluster's own does not count"
    )


@given(st.text(max_size=300))
def test_whatever_a_machine_says_of_processes_and_sockets(text: str) -> None:
    assert all(isinstance(number, int) for number in trees(Look("m", "", "", {"tree": answer(text)})))
    assert all(socket.host == "m" for socket in understood("m", answer(text)))


def test_only_connections_of_the_deployments_own_are_told() -> None:
    def end(ip: str, port: int) -> str:
        words = bytes(map(int, ip.split(".")))
        return f"{struct.unpack('<I', words)[0]:08X}:{port:04X}"

    mapped = "0000000000000000FFFF0000" + end("10.0.0.1", 29501)
    table = (
        f"fd 12 777\ntcp {end('10.0.0.2', 4000)} {end('10.0.0.1', 29501)} 02 777\n"
        f"tcp {end('10.0.0.2', 4001)} {end('10.0.0.9', 443)} 02 888\n"
        f"fd 12 999\ntcp {mapped} {mapped} 01 999\ntcp nonsense {mapped} 01 999x\n"
    )
    syn, established = understood("b", answer(table))
    assert (syn.state, syn.local, syn.peer) == ("SYN-SENT", "10.0.0.2:4000", "10.0.0.1:29501")
    assert (established.state, established.peer) == ("ESTAB", "10.0.0.1:29501")


def test_what_a_process_that_is_to_last_starts_need_not_last() -> None:
    rows = ("40 1 S python3", "41 40 S sglang::schedul", "42 41 R sglang::schedul", "43 40 Z sglang::schedul")
    text = "".join(
        f"0 {pid} - - - - {parent} {state} 250 1000 7 {name}\n"
        for pid, parent, state, name in (row.split() for row in rows)
    )
    (below,) = trees(Look("m", "", "", {"tree": answer(text)})).values()
    assert lasting(below, shipped_matcher().lasts) == {41: "sglang::schedul"}


def test_a_log_is_kept_at_its_ends_and_its_bars_are_seen_while_they_are_drawn() -> None:
    one = tracker(0)
    one.feed(b"first\n" + b"x" * (FIRST + LAST) + b"\nlast\n")
    assert one.kept.startswith(b"first\n") and one.kept.endswith(b"last\n") and len(one.kept) == FIRST + LAST
    bar = "\rLoading safetensors checkpoint shards:  {}% Completed | {}/4 [00:00<00:03,  1.0s/it]"
    for done in range(3):
        one.feed(bar.format(done * 25, done).encode())
        assert (
            one.told.counts[None].done == done
            and one.told.of(0, shipped_matcher().knowledge.order)[-1] == "loading"
        )


def test_dots_are_a_sign_of_life() -> None:
    one = tracker(0, engine="llama.cpp")
    one.feed(b"load_tensors: loading model tensors, this can take a while...\n")
    before = one.told.news
    for _ in range(5):
        one.feed(b"..")
    assert one.told.news == before + 5 and one.told.of(0, shipped_matcher().knowledge.order) == ("loading",)


def test_a_request_that_was_refused_is_no_first_token() -> None:
    one, order = tracker(0), shipped_matcher().knowledge.order
    one.feed(b'INFO:     10.0.0.1:5 - "POST /v1/completions HTTP/1.1" 500 Internal Server Error\n')
    assert one.told.of(0, order) == ()
    one.feed(b'INFO:     10.0.0.1:5 - "POST /v1/completions HTTP/1.1" 200 OK\n')
    assert one.told.of(0, order) == ("serving",)


def test_what_a_process_said_before_it_named_its_rank_is_that_ranks() -> None:
    one = tracker(0, 1)
    one.feed(
        b"(Worker pid=7) INFO 11-30 04:28:04 [pynccl.py:70] vLLM is using nccl==2.27.5\n"
        b"(Worker pid=7) INFO 11-30 04:41:14 [parallel_state.py:2350] rank 1 in world size 2 is assigned as DP rank 0\n"
        b"(Worker_TP1 pid=7) INFO 11-30 04:41:14 [gpu_model_runner.py:68] Starting to load model /m...\n"
    )
    order = shipped_matcher().knowledge.order
    assert one.told.of(1, order) == ("met", "joined", "loading") and one.told.of(0, order) == ()


def test_other_engines_lines_mark_nothing() -> None:
    one = tracker(0, engine="sglang")
    one.feed(
        b"(EngineCore pid=2) INFO Starting to load model /m...\n[2026-11-30 04:44:07 TP0] Init parallel begin.\n"
    )
    assert one.told.of(0, shipped_matcher().knowledge.order) == ("connecting",)
