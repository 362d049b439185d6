"""Plans for export: every way in which ranks are started, and words that every form has to quote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from canserve.plan.export.exported import Exported
from canserve.subjects.deployment import Folder, Given, Image, Mount, Site, Where
from canserve.subjects.launch import Process, Start
from canserve.subjects.parallel import Parallel, Placement, Rank

DOCKER = Image("docker", "engine/serve:1")
HOSTILE = (
    'a "b" c',
    "it's",
    "$HOME $(id) `id` ${X}",
    "100% %n",
    "; rm -rf /",
    "back\\slash\\n",
    "tab\there",
    "two\nlines",
    '{"a":{"b":1}}',
    "#no comment",
    "-",
    "",
    "1e3",
    "08",
    "yes",
    "12:30",
    "~",
    "ümläut 漢",
    "trailing ",
    " leading",
    "*&!|>@",
    "x" * 300,
)
"""Words of which each means something to a shell, to systemd, to compose, to YAML or to Kubernetes."""


def exported(where: Where, sites: tuple[Site, ...], *processes: Process, **more: Any) -> Exported:
    """One of a model that every host has, its ranks as the processes say."""
    ranks = [(number, one.host) for one in processes for number in one.ranks]
    held = {site.name: list(site.devices or range(64)) for site in sites}
    hosts = [site.name for site in sites]
    if any(len(one.ranks) > len(held[one.host]) for one in processes):  # one server holds ranks elsewhere
        places = [name for name in hosts for _ in held[name]]
        ranks = [(number, places[number]) for number, _ in ranks]
    placed = tuple(Rank(number, number, 0, 0, host, held[host].pop(0)) for number, host in sorted(ranks))
    told: dict[str, Any] = {
        "model": "org/Model-1.5B",
        "build": "docker-daemon:engine/serve:1",
        "engine": "vllm",
        "version": "0.17.1",
        "options": {"port": 8000, "seed": 1.5, "flag": True, "text": "a", "none": None},
    } | more
    placement = Placement(Parallel(tp=len(placed)), placed, (24,))
    start = Start(tuple(processes), told.pop("placeholders", {}))
    return Exported(where=where, sites=sites, placement=placement, start=start, **told)


def _serve(*words: str) -> tuple[str, ...]:
    return ("vllm", "serve", "org/Model-1.5B", *words)


def _own(rank: str, *more: str) -> tuple[str, ...]:
    nodes = ("--nnodes", "2", "--node-rank", rank, "--master-addr", "10.0.0.1", "--master-port", "29501")
    return _serve("--tensor-parallel-size", "2", *nodes, *more)


def _ray() -> tuple[Process, ...]:
    first = ("--port", "6379", "--node-ip-address", "10.0.0.1", "--num-gpus", "1")
    second = ("--address", "10.0.0.1:6379", "--node-ip-address", "10.0.0.2", "--num-gpus", "1")
    return (
        Process("a", (), ("ray", "start", "--head", *first), {"VLLM_HOST_IP": "10.0.0.1"}),
        Process("b", (), ("ray", "start", *second), {"VLLM_HOST_IP": "10.0.0.2"}),
        Process("a", (0, 1), _serve("--distributed-executor-backend", "ray"), {"VLLM_HOST_IP": "10.0.0.1"}),
    )


def _sglang(host: str, rank: int) -> Process:
    words = ("--nnodes", "2", "--node-rank", str(rank), "--dist-init-addr", "10.0.0.1:5000", "--tp", "2")
    argv = ("python3", "-m", "sglang.launch_server", "--model-path", "/models/m", *words)
    return Process(host, (rank,), argv, {"SGLANG_HOST_IP": f"10.0.0.{rank + 1}"})


def _rpc() -> tuple[Process, ...]:
    workers = [
        Process(host, (), ("rpc-server", "--host", f"10.0.0.{n}", "--port", "50052"))
        for n, host in ((2, "b"), (3, "c"))
    ]
    words = ("--model", "/models/m.gguf", "--rpc", "10.0.0.2:50052,10.0.0.3:50052")
    return (*workers, Process("a", (0, 1, 2), ("llama-server", *words)))


PAIR = (Site("a", (0,), "nvidia", rdma=True), Site("b", (0,), "nvidia", rdma=True))
GIVEN = Given(
    (Mount("/models", "/models"), Mount("/hub", "/canserve/huggingface", readonly=False)),
    {"HF_HOME": "/canserve/huggingface"},
    ("HF_TOKEN",),
    ("/run/key",),
)

CASES: Mapping[str, Exported] = {
    "one": exported(
        DOCKER,
        (Site("a", (2, 3), "nvidia"),),
        Process("a", (0, 1), _serve("--port", "8001"), {"CUDA_VISIBLE_DEVICES": "2,3", "A": "b c"}),
    ),
    "given": exported(DOCKER, (Site("a", (0,), "nvidia"),), Process("a", (0,), _serve()), given=GIVEN),
    "hostile": exported(
        DOCKER,
        (Site("a", (0,), "nvidia"),),
        Process("a", (0,), _serve(*HOSTILE), {f"V{n}": word for n, word in enumerate(HOSTILE)}),
    ),
    "ray": exported(DOCKER, PAIR, *_ray(), given=GIVEN),
    "own": exported(
        DOCKER,
        PAIR,
        Process("a", (0,), _own("0"), {"VLLM_HOST_IP": "10.0.0.1"}),
        Process("b", (1,), _own("1", "--headless"), {"VLLM_HOST_IP": "10.0.0.2"}),
    ),
    "sglang": exported(DOCKER, PAIR, _sglang("a", 0), _sglang("b", 1), engine="sglang", model="/models/m"),
    "rpc": exported(
        DOCKER,
        (Site("a", (0,), "nvidia"), Site("b", (0,), "nvidia"), Site("c", (0,), "nvidia")),
        *_rpc(),
        engine="llama.cpp",
        model="/models/m.gguf",
    ),
    "unnamed": exported(
        DOCKER,
        PAIR,
        *(
            Process(host, (rank,), tuple(word.replace("10.0.0.1", "$A_IP") for word in _own(str(rank))))
            for rank, host in enumerate("ab")
        ),
        placeholders={"A_IP": "the address of a"},
    ),
    "processor": exported(DOCKER, (Site("a"),), Process("a", (0,), _serve())),
    "amd": exported(Image("podman", "e:1"), (Site("a", (0,), "amd"),), Process("a", (0,), _serve())),
    "cdi": exported(Image("podman", "e:1"), (Site("a", (0, 1), "nvidia"),), Process("a", (0, 1), _serve())),
    "folder": exported(
        Folder("/srv/venv"),
        (Site("a", (0,), "nvidia"),),
        Process("a", (0,), _serve(*HOSTILE), {f"V{n}": word for n, word in enumerate(HOSTILE)}),
        build="/srv/venv",
    ),
    "ray-folder": exported(
        Folder("/srv/venv"), PAIR, *_ray(), build="/srv/venv", given=Given(secrets=("T",))
    ),
}
