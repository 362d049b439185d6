"""Steps as values: what is run for a plan, word by word."""

from __future__ import annotations

import shlex

import pytest

from canserve.commands import serving
from canserve.engines import ray
from canserve.engines.listening import Listens, listens
from canserve.plan.steps.starting import endpoint, ports, starting
from canserve.plan.steps.step import Step, stages
from canserve.plan.steps.stopping import stopping
from canserve.subjects.deployment import Deployment, Folder, Given, Image, Mount, Site
from canserve.subjects.launch import Process

WHO = "ana@desk 2026-11-30T14:40:00Z"
IMAGE = Image("docker", "engine/serve:1")
TWO = (Site("a", (0,), "nvidia", rdma=True), Site("b", (0, 1), "nvidia", rdma=True))
ONE = (Site("a", (0, 1), "nvidia", rdma=True),)


def made(where: Image | Folder, sites: tuple[Site, ...], *processes: Process, **more: object) -> Deployment:
    told = {"run": "r1", "model": "/m", "build": "B", "engine": "vllm", "operator": WHO, "state": "/s"} | more
    return Deployment(where=where, sites=sites, processes=processes, **told)  # type: ignore[arg-type]


def short(steps: tuple[Step, ...]) -> list[str]:
    """Stage, machine and name; of starts the process too."""
    return [
        f"{step.stage} {step.machine} {step.name}{'' if step.process is None else f' {step.process}'}"
        for step in steps
    ]


def starts(steps: tuple[Step, ...]) -> dict[int, str]:
    return {
        step.process: shlex.join(step.argv)
        for step in steps
        if step.name == "start" and step.process is not None
    }


def nodes(head: str, other: str) -> tuple[Process, Process]:
    """A launcher of its own: two servers, the second without an API."""
    more = ("--nnodes", "2", "--master-addr", "10.0.0.1", "--master-port", "29501", "--node-rank")
    return (
        Process(head, (0,), ("vllm", "serve", "/m", *more, "0"), {"VLLM_HOST_IP": "10.0.0.1"}),
        Process(
            other, (1, 2), ("vllm", "serve", "/m", *more, "1", "--headless"), {"VLLM_HOST_IP": "10.0.0.2"}
        ),
    )


def over_ray() -> tuple[Process, ...]:
    return (
        Process(
            "a",
            (),
            ("ray", "start", "--head", "--port", "6379", "--node-ip-address", "10.0.0.1", "--num-gpus", "1"),
        ),
        Process(
            "b",
            (),
            (
                "ray",
                "start",
                "--address",
                "10.0.0.1:6379",
                "--node-ip-address",
                "10.0.0.2",
                "--num-gpus",
                "2",
            ),
        ),
        Process("a", (0, 1, 2), ("vllm", "serve", "/m", "--distributed-executor-backend", "ray")),
    )


def test_one_host_in_a_container() -> None:
    given = Given(
        (Mount("/m", "/m"), Mount("/c", "/hub", readonly=False)),
        {"HF_HOME": "/hub"},
        ("HF_TOKEN",),
        ("/run/key",),
    )
    process = Process(
        "a", (0, 1), ("vllm", "serve", "/m", "--port", "8001"), {"CUDA_VISIBLE_DEVICES": "2,3", "A": "b c"}
    )
    it = made(IMAGE, (Site("a", (2, 3), "nvidia", rdma=True),), process, given=given)
    assert starts(starting(it)) == {
        0: "docker run --detach --pull never --name canserve-r1-0 --label canserve.run=r1 --label canserve.process=0 "
        "--label canserve.ranks=0,1 --label canserve.machine=a --label 'canserve.by=ana@desk 2026-11-30T14:40:00Z' "
        "--network host --ipc private --shm-size 16g --ulimit memlock=-1 --ulimit stack=67108864 "
        "--gpus '\"device=2,3\"' --mount type=bind,source=/m,target=/m,readonly --mount type=bind,source=/c,target=/hub "
        "--env 'A=b c' --env HF_HOME=/hub --env HF_TOKEN --env-file /run/key --entrypoint vllm engine/serve:1 "
        "serve /m --port 8001"
    }
    assert short(starting(it)) == [
        "0 a place", "0 a claim", "0 a claim", "0 a describe", "0 a audit", "0 a port-free", "0 a image-held", "0 a secrets", "1 a start 0",
    ]  # fmt: skip
    assert endpoint(it) == ("a", 8001)


def test_one_host_from_an_environment() -> None:
    it = made(Folder("/srv/venv"), ONE, Process("a", (0, 1), ("vllm", "serve", "/m"), {"A": "b c"}))
    argv = next(step.argv for step in starting(it) if step.name == "start")
    assert argv[:6] == ("env", "CANSERVE_RUN=r1.", "A=b c", "setsid", "--fork", "sh")
    assert argv[8:] == ("/s/r1/0", "/srv/venv/bin", "/srv/venv/bin/vllm", "serve", "/m")
    assert short(starting(it)) == [
        "0 a place", "0 a claim", "0 a claim", "0 a describe", "0 a audit", "0 a port-free", "0 a program-held", "0 a folder", "1 a folder",
        "1 a start 0",
    ]  # fmt: skip
    held = next(step.argv for step in starting(it) if step.name == "program-held")
    assert held == ("test", "-x", "/srv/venv/bin/vllm")


def test_a_server_of_another_engine() -> None:
    argv = ("llama-server", "--model", "/m.gguf", "--port=9000")
    it = made(IMAGE, (Site("a"),), Process("a", (0,), argv), engine="llama.cpp")
    line = starts(starting(it))[0]
    assert "--gpus" not in line and "infiniband" not in line
    assert line.endswith("--entrypoint llama-server engine/serve:1 --model /m.gguf --port=9000")
    assert "/s/processor.lock" in {
        word for step in starting(it) if step.name == "claim" for word in step.argv
    }
    assert ports(it, "a") == {9000: 0}


def test_two_hosts_by_the_engines_own_launcher() -> None:
    it = made(IMAGE, TWO, *nodes("a", "b"))
    steps = starting(it)
    assert [one for one in short(steps) if not one.startswith("0")] == ["1 a start 0", "2 b start 1"]
    first, second = starts(steps).values()
    assert (
        "--gpus device=0 --device /dev/infiniband --cap-add IPC_LOCK" in first
        and "VLLM_HOST_IP=10.0.0.1" in first
    )
    assert "--gpus '\"device=0,1\"' --device /dev/infiniband" in second and second.endswith(
        "--node-rank 1 --headless"
    )
    assert ports(it, "a") == {8000: 0, 29501: 0} and ports(it, "b") == {}
    assert endpoint(it) == ("a", 8000)


def test_two_hosts_with_one_address_for_all() -> None:
    def process(host: str, rank: str) -> Process:
        argv = (
            "python3",
            "-m",
            "sglang.launch_server",
            "--nnodes",
            "2",
            "--node-rank",
            rank,
            "--dist-init-addr",
            "10.0.0.1:5000",
        )
        return Process(host, (int(rank),), argv)

    it = made(Folder("/v"), TWO, process("a", "0"), process("b", "1"), engine="sglang")
    assert [one for one in short(starting(it)) if not one.startswith("0")] == [
        "1 a folder", "1 a start 0", "2 b folder", "2 b start 1",
    ]  # fmt: skip
    assert ports(it, "a") == {30000: 0, 5000: 0} and ports(it, "b") == {}


def test_workers_listen_before_the_server_starts() -> None:
    workers = [
        Process(host, (), ("rpc-server", "--host", "10.0.0.2", "--port", "50052")) for host in ("b", "c")
    ]
    server = Process(
        "a", (0, 1, 2), ("llama-server", "--model", "/m", "--rpc", "10.0.0.2:50052,10.0.0.3:50052")
    )
    sites = (*TWO, Site("c", (0,), "nvidia"))
    it = made(IMAGE, sites, *workers, server, engine="llama.cpp")
    assert [one for one in short(starting(it)) if not one.startswith("0")] == [
        "1 b start 0", "1 c start 1", "1 b listens 0", "1 c listens 1", "2 a start 2",
    ]  # fmt: skip
    waits = [step for step in starting(it) if step.name == "listens"]
    assert all(step.patience > 0 and ":c384 " in step.argv[4] for step in waits)


def test_ray_is_whole_before_the_server_starts() -> None:
    it = made(IMAGE, TWO, *over_ray())
    steps = starting(it)
    assert [one for one in short(steps) if not one.startswith("0")] == [
        "1 a start 0", "1 a listens 0", "2 b start 1", "3 a joined 0", "4 a start 2",
    ]  # fmt: skip
    joined = next(step for step in steps if step.name == "joined")
    assert (
        joined.argv[2]
        == 'docker exec canserve-r1-0 ray status --address 10.0.0.1:6379 | grep -q "/3\\.0 GPU"'
    )
    head, worker, server = starts(steps).values()
    assert (
        "--ipc shareable" in head
        and "canserve-r1-0:/tmp/ray" in head
        and head.endswith("--num-gpus 1 --block")
    )
    assert "--ipc private" in worker and "/tmp/ray" not in worker
    assert (
        "--ipc container:canserve-r1-0 --pid container:canserve-r1-0 --volume canserve-r1-0:/tmp/ray"
        in server
    )
    assert "--env RAY_ADDRESS=10.0.0.1:6379" in server and "RAY_ADDRESS" not in head + worker
    assert ports(it, "a") == {6379: 0, 8000: 2}


def test_ray_from_an_environment() -> None:
    steps = starting(made(Folder("/v"), TWO, *over_ray()))
    joined = next(step for step in steps if step.name == "joined")
    assert joined.argv[2].startswith("/v/bin/ray status --address 10.0.0.1:6379 ")
    head, worker, server = starts(steps).values()
    for line in (head, worker, server):  # what it keeps goes with the run
        assert "RAY_TMPDIR=/s/r1 " in line
    assert "RAY_ADDRESS=10.0.0.1:6379 " in server and "RAY_ADDRESS" not in head + worker
    assert [step.argv[-1] for step in steps if step.name == "program-held"] == [
        "/v/bin/ray",
        "/v/bin/vllm",
        "/v/bin/ray",
    ]


@pytest.mark.parametrize(
    ("vendor", "program", "words"),
    [
        ("amd", "docker", "--device /dev/kfd --device /dev/dri --group-add video"),
        ("intel", "docker", "--device /dev/dri"),
        ("nvidia", "podman", "--device nvidia.com/gpu=0 --device nvidia.com/gpu=1"),
    ],
)
def test_accelerators_of_others(vendor: str, program: str, words: str) -> None:
    it = made(
        Image(program, "i"), (Site("a", (0, 1), vendor),), Process("a", (0, 1), ("vllm", "serve", "/m"))
    )
    line = starts(starting(it))[0]
    assert f" {words} " in line and "--gpus" not in line


def test_every_word_of_a_plan_stays_one_word() -> None:
    nasty = ("vllm", "serve", "/m; rm -rf $HOME", "--x", "$(id)", "'\"`\n")
    for where in (IMAGE, Folder("/v")):
        it = made(where, ONE, Process("a", (0,), nasty, {"A": "$(id); 'x'"}))
        argv = next(step.argv for step in starting(it) if step.name == "start")
        assert argv[-5:] == ("serve", *nasty[2:])
        assert shlex.split(shlex.join(argv)) == list(argv)


def test_down_is_the_inverse_and_knows_only_the_name() -> None:
    steps = stopping("r1", ("a", "b"), "docker", "/s", "line")
    assert short(steps) == [
        "0 a end", "0 a volumes", "1 b end", "1 b volumes", "2 a release", "2 a audit", "2 b release", "2 b audit",
    ]  # fmt: skip
    assert steps[0].argv[3:] == ("docker", "canserve.run=r1", "20") and steps[1].argv[3:] == (
        "docker",
        "^canserve-r1-",
    )
    assert short(stopping("r1", ("a",), "process", "/s", "line")) == ["0 a end", "2 a release", "2 a audit"]


def test_stages_keep_the_order_of_each_machine() -> None:
    steps = starting(made(IMAGE, TWO, *over_ray()))
    by_stage = [[group[0].machine for group in stage] for stage in stages(steps)]
    assert by_stage == [["a", "b"], ["a"], ["b"], ["a"], ["a"]]
    assert [step for stage in stages(steps) for group in stage for step in group] == list(steps)


@pytest.mark.parametrize(
    ("engine", "argv", "found"),
    [
        ("vllm", ("vllm", "serve", "m"), Listens(8000)),
        ("vllm", ("vllm", "serve", "m", "--port", "1", "--port=81"), Listens(81)),
        ("vllm", ("vllm", "serve", "m", "--headless"), Listens()),
        ("lmdeploy", ("lmdeploy", "serve", "api_server", "m", "--server-port", "99"), Listens(99)),
        ("unheard-of", ("serve",), Listens()),
        ("vllm", ("ray", "start", "--head", "--port", "6379"), Listens(None, 6379)),
        ("vllm", ("ray", "start", "--address", "a:6379"), Listens()),
        ("vllm", ("vllm", "serve", "m", "--port", "99999"), Listens(8000)),
    ],
)
def test_where_processes_listen(engine: str, argv: tuple[str, ...], found: Listens) -> None:
    assert listens(engine, argv) == found


def test_words_of_ray() -> None:
    assert ray.kept(("ray", "start", "--head")) == ("ray", "start", "--head", "--block")
    assert ray.kept(("vllm", "serve")) == ("vllm", "serve")
    assert ray.accelerators(process.argv for process in over_ray()) == 3


def test_no_name_is_the_beginning_of_another() -> None:
    it = made(Folder("/v"), ONE, Process("a", (0,), ("vllm", "serve")))
    assert serving.start(it, 0)[1] == f"{serving.VARIABLE}=r1."
