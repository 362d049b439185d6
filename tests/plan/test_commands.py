"""The exact command line of each process: only flags that the build has, by the launcher that it has."""

from __future__ import annotations

from dataclasses import replace

from plan_world import HOSTS, build, launch, model, placement

from canserve.engines.argv import Flags
from canserve.engines.listening import listens
from canserve.engines.starting import start
from canserve.facts import Cause, Known, Missing
from canserve.rules.parsers import suggested
from canserve.subjects.build import Build
from canserve.subjects.launch import Launch, Process, Start
from canserve.subjects.parallel import Parallel, Placement


def started(made: Build, placed: Placement, **options: object) -> Start:
    found = start(launch(made, placed, **options))
    assert isinstance(found, Known), found
    return found.value


def line(process: Process) -> str:
    return " ".join(process.argv)


def test_one_machine_is_one_command() -> None:
    (process,) = started(build(), placement(Parallel(2), 2), max_model_len=4096).processes
    assert line(process) == (
        "vllm serve org/model --tensor-parallel-size 2 --reasoning-parser qwen3 "
        "--tool-call-parser qwen3_coder --enable-auto-tool-choice --max-model-len 4096"
    )
    assert process.ranks == (0, 1) and process.environment == {}


def test_nodes_start_by_the_builds_own_launcher_where_it_has_one() -> None:
    head, second = started(build(), placement(Parallel(2), 1, 1)).processes
    joint = "--nnodes 2 --node-rank {} --master-addr 10.0.0.1 --master-port 29501"
    assert joint.format(0) in line(head) and "--headless" not in line(head)
    assert joint.format(1) in line(second) and "--headless" in line(second)
    assert head.environment == {
        "VLLM_HOST_IP": "10.0.0.1", "NCCL_SOCKET_IFNAME": "eth0", "GLOO_SOCKET_IFNAME": "eth0"
    }  # fmt: skip
    assert second.environment == {}


def test_else_by_ray_and_what_is_not_known_is_named() -> None:
    for made, options in (
        (build(launchers=("mp", "ray")), {}),
        (build(), {"distributed_executor_backend": "ray"}),
    ):
        found = started(made, placement(Parallel(2), 1, 1), **options)
        head, second, server = map(line, found.processes)
        assert head == "ray start --head --port 6379 --node-ip-address 10.0.0.1 --num-gpus 1"
        assert second == "ray start --address 10.0.0.1:6379 --node-ip-address $SECOND_IP --num-gpus 1"
        assert server.count("--distributed-executor-backend ray") == 1 and "--nnodes" not in server
        assert list(found.placeholders) == ["SECOND_IP"]


def test_uneven_machines_need_ray() -> None:
    found = started(build(), placement(Parallel(3), 2, 1))
    assert line(found.processes[0]).startswith("ray start --head")


def test_no_launcher_is_no_guess() -> None:
    for made in (build(launchers=("mp",)), build("sglang", drop=("--nnodes",))):
        assert isinstance(start(launch(made, placement(Parallel(2), 1, 1))), Missing)
    unknown = start(launch(build("another"), placement(Parallel(), 1)))
    assert isinstance(unknown, Missing) and unknown.cause is Cause.UNREACHED


def test_replicas_over_machines() -> None:
    made = build(launchers=("mp", "headless"))
    head, second = map(line, started(made, placement(Parallel(1, 1, 2, 2), 1, 1)).processes)
    assert "--data-parallel-size 2 --enable-expert-parallel --data-parallel-size-local 1" in head
    assert "--data-parallel-start-rank 1 --headless --data-parallel-address 10.0.0.1" in second
    spanning = placement(Parallel(2, 1, 2), 1, 3)
    assert isinstance(start(launch(made, spanning)), Missing)


def test_the_other_engine() -> None:
    made = build("sglang")
    processes = started(made, placement(Parallel(2, 1, 1, 2), 1, 1), context_length=4096).processes
    head, second = map(line, processes)
    assert (
        processes[0].environment["SGLANG_HOST_IP"] == "10.0.0.1"
    )  # else its queues wait at a loopback address
    (alone,) = started(made, placement(Parallel(), 1)).processes
    assert "SGLANG_HOST_IP" not in alone.environment
    assert head == (
        "python3 -m sglang.launch_server --model-path org/model --tensor-parallel-size 2 --enable-ep-moe "
        "--nnodes 2 --node-rank 0 --dist-init-addr 10.0.0.1:5000 --reasoning-parser qwen3 "
        "--tool-call-parser qwen3_coder --context-length 4096"
    )
    assert "--node-rank 1" in second


def test_accelerators_that_are_not_the_first_are_named() -> None:
    (process,) = started(build(), placement(Parallel(2), 2, first=4)).processes
    assert process.environment == {"CUDA_VISIBLE_DEVICES": "4,5"}


def test_options_are_written_as_the_build_takes_them() -> None:
    flags = Flags.of(build().flags)
    assert flags.option("enforce_eager", True) == ("--enforce-eager",)
    assert flags.option("enforce_eager", False) == ("--no-enforce-eager",)
    assert flags.option("hf_overrides", {"a": 1}) == ("--hf-overrides", '{"a": 1}')
    assert flags.option("gpu_memory_utilization", 0.95) == ("--gpu-memory-utilization", "0.95")
    assert flags.set(1, "--context-length") == ()
    assert Flags.of(build("sglang").flags).option("disable_cuda_graph", False) == ()


def test_degrees_come_from_the_layout_alone() -> None:
    (process,) = started(build(), placement(Parallel(2), 2), tensor_parallel_size=8).processes
    assert line(process).count("--tensor-parallel-size") == 1 and "8" not in process.argv


def test_parsers_are_suggested_by_the_marks_in_the_template() -> None:
    known = ("hermes", "qwen3_coder", "glm45", "mistral")
    assert suggested("tool", "<tool_call> {name", "qwen3", known) == "hermes"
    assert suggested("tool", "<tool_call><arg_key>", "other", known) == "glm45"
    assert suggested("tool", "[TOOL_CALLS]", None, known) == "mistral"
    assert suggested("tool", "[TOOL_CALLS]", None, ()) is None
    assert suggested("reasoning", "no marks", "qwen3", ("qwen3",)) is None
    placed = placement(Parallel(), 1)
    plain = start(Launch(model(None), build(), placed, HOSTS[:1]))
    assert isinstance(plain, Known) and line(plain.value.processes[0]) == "vllm serve org/model"


def test_rpc_workers_are_started_before_the_server() -> None:
    made = build("llama.cpp", launchers=("rpc",))
    worker, server = map(line, started(made, placement(Parallel(1, 2), 1, 1), ctx_size=4096).processes)
    assert worker == "rpc-server --host $SECOND_IP --port 50052"
    named = replace(made, rpc_worker=Known("ggml-rpc-server"))
    (process, _) = started(named, placement(Parallel(1, 2), 1, 1)).processes
    assert line(process) == "ggml-rpc-server --host $SECOND_IP --port 50052"
    assert listens("llama.cpp", process.argv).join == 50052
    assert server == (
        "llama-server --hf-repo org/model --gpu-layers 999 --rpc $SECOND_IP:50052 --ctx-size 4096"
    )
    (row,) = started(made, placement(Parallel(2), 2), port=9000).processes
    assert line(row).endswith("--gpu-layers 999 --split-mode row --port 9000")
    unread = replace(made, flags=Missing(Cause.UNREACHED, "not read"))
    (alone,) = started(unread, placement(Parallel(), 1)).processes
    assert " --port 8080" in line(alone)  # releases have different ones of their own
    for impossible in (placement(Parallel(2), 1, 1), placement(Parallel(1, 1, 2), 2)):
        assert isinstance(start(launch(made, impossible)), Missing)
    assert isinstance(start(launch(build("llama.cpp", ()), placement(Parallel(1, 2), 1, 1))), Missing)


def test_ray_joins_the_machines_of_a_third_engine() -> None:
    made = build("lmdeploy", launchers=("mp", "ray"))
    head, second, server = started(made, placement(Parallel(2), 1, 1), session_len=4096).processes
    assert line(head).startswith("ray start --head") and "--address 10.0.0.1:6379" in line(second)
    assert line(server) == (
        "lmdeploy serve api_server org/model --backend pytorch --tp 2 --reasoning-parser qwen3 "
        "--tool-call-parser qwen3_coder --session-len 4096"
    )
    assert isinstance(start(launch(made, placement(Parallel(1, 2), 2))), Missing)


def test_experts_spread_over_replicas_leave_attention_alone_data_parallel() -> None:
    made = build("sglang")
    (process,) = started(made, placement(Parallel(2, 1, 2, 4), 4)).processes
    assert "--tensor-parallel-size 4 --data-parallel-size 2 --enable-ep-moe --enable-dp-attention" in line(
        process
    )
    without = launch(build("sglang", drop=("--enable-dp-attention",)), placement(Parallel(2, 1, 2, 4), 4))
    assert isinstance(start(without), Missing)
    (plain,) = started(made, placement(Parallel(2, 1, 2), 4)).processes
    assert "--tensor-parallel-size 2 --data-parallel-size 2" in line(plain)
    assert "--enable-dp-attention" not in line(plain)


def test_a_folder_has_to_be_on_every_machine() -> None:
    joint = launch(build(), placement(Parallel(2), 1, 1))
    folder = replace(joint, model=replace(joint.model, origin="folder", subject="./model"))
    found = start(folder)
    assert isinstance(found, Known)
    assert found.value.notes == ("./model has to be there on every machine, under this very path",)
    assert started(build(), placement(Parallel(2), 1, 1)).notes == ()
