"""The first cause among many lines and ranks; what is only a consequence; what stands still."""

from __future__ import annotations

import pytest
from deployment import diagnosed

from canserve.subjects.diagnosis import Diagnosis

START = "(APIServer pid=1) INFO 11-30 04:27:09 [a.py:1] vLLM API server version 0.17.1\n"
ENGINE = "(EngineCore_DP0 pid=2) "
WORKER = "(Worker_TP0 pid=3) "
FILLER = "".join(f"(APIServer pid=1) INFO 11-30 04:27:10 [a.py:1] filling line {n}\n" for n in range(12))
FAILED = (
    f"{WORKER}ERROR 11-30 04:27:20 [m.py:1] WorkerProc failed to start.\n"
    f"{WORKER}ERROR 11-30 04:27:20 [m.py:1] Traceback (most recent call last):\n"
    f'{WORKER}ERROR 11-30 04:27:20 [m.py:1]   File "/v/x.py", line 1, in f\n'
    f"{WORKER}ERROR 11-30 04:27:20 [m.py:1] CAUSE\n"
    f"{ENGINE}ERROR 11-30 04:27:21 [c.py:1] EngineCore failed to start.\n"
    f"{ENGINE}ERROR 11-30 04:27:21 [c.py:1] Exception: WorkerProc initialization failed due to an exception in a "
    "background process. See stack trace for root cause.\n"
    "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n"
)
READY = "(APIServer pid=1) INFO:     Application startup complete.\n"


def test_the_cause_is_the_innermost_first_line_not_the_parents() -> None:
    found = diagnosed(
        log=START + FILLER + FAILED.replace("CAUSE", "torch.OutOfMemoryError: CUDA out of memory.")
    )
    assert (found.state, found.kind, found.engine, found.engine_version) == (
        "failed",
        "memory",
        "vllm",
        "0.17.1",
    )
    assert found.cause is not None
    assert (found.cause.line, found.cause.process) == (17, "Worker_TP0")
    assert [each.line for each in found.consequences] == [14, 18, 19, 20]


def test_an_unknown_cause_is_named_and_called_unknown() -> None:
    found = diagnosed(log=START + FILLER + FAILED.replace("CAUSE", "ValueError: the moon is full"))
    assert (found.state, found.kind) == ("failed", None)
    assert found.cause is not None
    assert found.cause.text == "ValueError: the moon is full"


def test_the_head_of_a_list_of_refusals_is_no_cause() -> None:
    head = "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n"
    found = diagnosed(
        log=head + "  Value error, the moon is full [type=value_error, input_type=ArgsKwargs]\n"
    )
    assert found.cause is not None
    assert (found.kind, found.cause.line) == (None, 2)
    refused = "  Value error, rope_scaling should have a 'rope_type' key [type=value_error]\n"
    assert diagnosed(log=head + refused).kind == "config-model_type"


def test_that_a_model_was_not_loaded_says_not_why() -> None:
    found = diagnosed(log="common_init_from_params: failed to load model '/srv/acme.gguf'\n")
    assert (found.state, found.kind, found.name) == ("failed", None, "load-failed")


def test_a_refused_value_is_of_the_kind_of_its_flag() -> None:
    refused = "vllm serve: error: argument {}: invalid choice: 'acme' (choose from 'a', 'b')\n"
    assert diagnosed(log=refused.format("--reasoning-parser")).kind == "tokenizer-template-parser"
    assert diagnosed(log=refused.format("--attention-backend")).kind == "image-probing-and-logs"


def test_a_log_with_only_the_parents_lines_says_so() -> None:
    tail = FAILED.splitlines(keepends=True)[-2:]
    found = diagnosed(log=START + FILLER + "".join(tail))
    assert (found.kind, found.name) == ("image-probing-and-logs", "parent-without-cause")
    assert found.cause is None


@pytest.mark.parametrize("count", range(14, 17))
def test_a_log_that_is_cut_inside_the_traceback_claims_no_kind(count: int) -> None:
    lines = (START + FILLER + FAILED).splitlines(keepends=True)
    found = diagnosed(log="".join(lines[:count]))
    assert (found.state, found.kind) == ("failed", None)


def test_the_rank_that_failed_first_is_the_cause_whatever_its_file_is_called() -> None:
    late = (
        f"{START}{FILLER}(Worker_TP0 pid=3) ERROR 11-30 04:30:00 [m.py:1] torch.distributed.DistBackendError: "
        "NCCL error in: x.cpp:1, remote process exited or there was a network error\n"
    )
    early = f"{START}(Worker_TP1 pid=3) ERROR 11-30 04:29:00 [m.py:1] torch.OutOfMemoryError: CUDA out of memory.\n"
    for names in (("a", "b"), ("b", "a")):
        found = diagnosed(**dict(zip(names, (late, early), strict=True)))
        assert found.kind == "memory"
        assert found.cause is not None
        assert found.cause.file == names[1]
    alone = diagnosed(log=late)
    assert alone.kind == "multi-node-and-collectives"


@pytest.mark.parametrize("later", [0, 3])
def test_of_one_moment_what_a_rank_says_of_itself_goes_before_what_a_peer_says(later: int) -> None:
    """A traceback bears no time: its moment is that of the line above it."""
    own = f"{START}{FILLER}INFO 11-30 04:27:{12 + later} [a.py:1] ready soon\nOSError: [Errno 98] Address already in use\n"
    echo = (
        f"{START}(Worker_TP1 pid=3) ERROR 11-30 04:27:12 [m.py:1] RuntimeError: "
        "[gloo/transport/tcp/pair.cc:538] Connection closed by peer [10.77.1.2]:29501\n"
    )
    for names in (("a", "b"), ("b", "a")):
        found = diagnosed(**dict(zip(names, (own, echo), strict=True)))
        assert found.cause is not None and found.cause.file == names[0], found.cause
    assert diagnosed(log=echo).name == "ranks-cannot-connect"


def test_an_unknown_error_before_an_echo_is_not_called_by_the_echo() -> None:
    found = diagnosed(
        log=START + FILLER + FAILED.replace("CAUSE", "ValueError: the moon is full")
        + "(Worker_TP1 pid=4) ERROR 11-30 04:29:00 [m.py:1] RuntimeError: NCCL error: remote process exited or "
        "there was a network error\n"
    )  # fmt: skip
    assert found.kind is None
    assert found.cause is not None
    assert "moon" in found.cause.text


def test_what_came_before_ready_did_not_prevent_it() -> None:
    warned = "(Worker_TP0 pid=3) ERROR 11-30 04:27:20 [m.py:1] CUDA out of memory while trying; trying less\n"
    assert diagnosed(log=START + FILLER + warned + READY).state == "serving"
    after = diagnosed(log=START + FILLER + READY + warned)
    assert (after.state, after.kind) == ("failed", "memory")


def test_a_warning_alone_ends_no_start_but_explains_one_that_ended() -> None:
    warning = "WARNING 11-30 04:27:20 [i.py:1] Failed to import from vllm._C with ImportError('libcuda.so.1: cannot "
    warning += "open shared object file')\n"
    assert diagnosed(log=START + FILLER + warning).kind is None
    ended = START + FILLER + warning + "ModuleNotFoundError: No module named 'vllm._C'\n"
    found = diagnosed(log=ended)
    assert (found.kind, found.name) == ("image-probing-and-logs", "no-gpu-runtime")


def test_one_line_that_waits_is_no_verdict_in_a_log_and_a_hint_alone() -> None:
    waits = "(EngineCore_DP0 pid=2) INFO 11-30 04:28:20 [s.py:1] No available shared memory broadcast block found in "
    waits += "60 seconds. This typically happens when some processes are hanging\n"
    log = diagnosed(log=START + FILLER + waits)
    assert (log.state, log.kind) == ("starting", None)
    alone = diagnosed(log=waits)
    assert (alone.state, alone.kind) == ("unknown", "multi-node-and-collectives")
    assert "proves nothing" in alone.because


def test_the_wrong_advice_of_a_list_that_holds_the_refused_class() -> None:
    said = "ValueError: Model architectures ['Foo'] are not supported for now. Supported architectures: ['Bar', {}]"
    assert diagnosed(log=said.format("'Foo'")).name == "class-listed-but-refused"
    assert diagnosed(log=said.format("'Foo2'")).name == "class-not-in-build"
    assert "Foo" in diagnosed(log=said.format("'Baz'")).because


def rank(number: int, at: float, host: str = "10.0.0.1") -> str:
    """A rank that connects, and then says nothing."""
    return (
        f"  {at - 2:.2f} (MainProcess pid=9) INFO 11-30 03:00:00 [s.py:1] vLLM API server version 0.32.0\n"
        f"  {at:.2f} (Worker pid=1{number}) INFO 11-30 03:00:01 [p.py:1] world_size=2 rank={number} local_rank=0 "
        f"distributed_init_method=tcp://{host}:29501 backend=gloo\n"
    )


def stacks(taken: int, *frames: str, sockets: str = "") -> str:
    """A dump in which each worker stands in one frame."""
    each = "".join(
        f'### host {"ab"[n]} pid 1\nProcess 1{n}: Worker\n\nThread 1{n} (active): "MainThread"\n'
        f"    {frame}\n    main (x.py:1)\n"
        for n, frame in enumerate(frames)
    )
    return f"t={taken}s\n{each}{sockets}"


STORE = "_create_c10d_store (torch/distributed/rendezvous.py:199)"
MESH = "_new_process_group_helper (torch/distributed/distributed_c10d.py:2169)"
QUEUE = "MessageQueue.wait_until_ready (vllm/distributed/device_communicators/shm_broadcast.py:707)"
LOADING = "load_weights (vllm/model_executor/models/x.py:1)"
REFUSED = "### sockets b\nSYN-SENT 0      1      10.0.0.2:46484 10.0.0.1:44099 users:((1))\n"


def test_a_rank_that_never_came() -> None:
    found = diagnosed(a=rank(0, 20), dump=stacks(200, STORE))
    assert (found.state, found.name) == ("stalled", "rank-missing")
    assert "rank 1 of 2" in found.because
    assert "10.0.0.1:29501" in found.because


@pytest.mark.parametrize(
    ("frame", "sockets", "name"),
    [
        (STORE, REFUSED, "store-unreachable"),
        (STORE, "", "store-waits"),
        (MESH, REFUSED, "ranks-cannot-connect"),
        (MESH, "", "collective-stands"),
        (QUEUE, "", "queue-address-unreachable"),
    ],
)
def test_where_all_ranks_stand_names_the_stall(frame: str, sockets: str, name: str) -> None:
    dump = stacks(200, frame, frame, sockets=sockets)
    found = diagnosed(a=rank(0, 20), b=rank(1, 21), dump=dump)
    assert (found.state, found.kind, found.name) == ("stalled", "multi-node-and-collectives", name)


def test_a_short_silence_or_a_rank_at_work_is_no_stall() -> None:
    assert diagnosed(a=rank(0, 20), b=rank(1, 21), dump=stacks(40, STORE, STORE)).state == "starting"
    assert diagnosed(a=rank(0, 20), b=rank(1, 21), dump=stacks(400, QUEUE, LOADING)).state == "starting"
    assert diagnosed(a=rank(0, 20), b=rank(1, 21)).state == "starting"


def test_an_idle_worker_is_no_stall() -> None:
    idle = "MessageQueue.dequeue (vllm/distributed/device_communicators/shm_broadcast.py:577)"
    assert diagnosed(a=rank(0, 20), b=rank(1, 21), dump=stacks(400, idle, idle)).state == "starting"
    first = "broadcast (torch/distributed/distributed_c10d.py:2726)"
    assert diagnosed(a=rank(0, 20), b=rank(1, 21), dump=stacks(400, first, first)).name == "collective-stands"


def test_two_dumps_that_agree_need_no_log() -> None:
    assert diagnosed(one=stacks(100, STORE, STORE), two=stacks(160, STORE, STORE)).state == "stalled"
    assert diagnosed(one=stacks(100, STORE, STORE), two=stacks(160, MESH, STORE)).state == "starting"
    assert diagnosed(one=stacks(100, STORE, STORE), two=stacks(105, STORE, STORE)).state == "starting"


def test_a_silent_start_that_was_stopped_says_for_how_long_it_stood() -> None:
    stop = "  {:.2f} (MainProcess pid=9) INFO 11-30 03:05:00 [m.py:1] [shutdown] Executor: waiting for worker exit\n"
    found = diagnosed(log=rank(1, 20) + stop.format(220))
    assert (found.state, found.name) == ("stalled", "start-stood")
    assert "200 s" in found.because
    assert diagnosed(log=rank(1, 20) + stop.format(50)).state == "stopped"
    joined = "  30.00 (Worker pid=11) INFO 11-30 03:00:10 [p.py:1] rank 1 in world size 2 is assigned as DP rank 0\n"
    assert diagnosed(log=rank(1, 20) + joined + stop.format(220)).state == "stopped"


def test_an_address_that_is_ones_own_is_wrong_at_once() -> None:
    line = "INFO 11-30 03:00:00 [m.py:1] DP group leader: node_rank=0, master_addr=10.0.0.1, mq_connect_ip={} (local), "
    line += "world_size={}, local_world_size=1\n"
    assert diagnosed(log=START + FILLER + line.format("127.0.0.1", 2)).name == "loopback-in-a-group-of-nodes"
    assert diagnosed(log=START + FILLER + line.format("127.0.0.1", 1)).kind is None
    assert diagnosed(log=START + FILLER + line.format("10.0.0.1", 2)).kind is None


def test_what_would_stand_is_not_what_ended_it() -> None:
    line = "INFO 11-30 04:27:12 [m.py:1] DP group leader: node_rank=0, master_addr=10.0.0.1, mq_connect_ip=127.0.0.1 "
    line += "(local), world_size=2, local_world_size=1\n"

    def ended(error: str) -> Diagnosis:
        return diagnosed(log=START + FILLER + WORKER + line + FAILED.replace("CAUSE", error))

    unknown = ended("FrobnicationError: no program lscpu here")
    assert unknown.kind is None and unknown.cause is not None and "lscpu" in unknown.cause.text
    for waiting in ("TimeoutError: the handshake timed out", "FrobnicationError: Connection closed by peer"):
        assert ended(waiting).name == "loopback-in-a-group-of-nodes", waiting


def test_ranks_whose_set_up_did_not_end_are_what_to_look_at() -> None:
    line = "h:1:1 [0] NCCL INFO ncclCommInitRank comm 0x1 rank {} nranks 4 cudaDev 0 nvmlDev 0 busId 1 commId 0x2 - Init {}\n"
    begun = "".join(line.format(rank, "START") for rank in range(4))
    ended = "".join(line.format(rank, "COMPLETE") for rank in (0, 2))
    found = diagnosed(log=START + FILLER + begun + ended)
    assert (found.state, found.kind) == ("starting", None)
    assert "rank 1, 3 " in found.next_look[2]
