"""Builds, models, machines and memory made by hand, for plans."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from canserve.facts import Cause, Known, Missing
from canserve.memory.quantity import GIB, Quantity
from canserve.memory.request import RankMemory, Serving
from canserve.subjects.build import Build, Flag, Identity, Site, Transformers
from canserve.subjects.launch import Host, Launch
from canserve.subjects.model import Model
from canserve.subjects.parallel import Parallel, Placement, Rank

NOT_HERE = Missing(Cause.UNREACHED, "not part of this test")
SITE = Site("arg_utils.py", 1)
TEMPLATE = "<think><tool_call><function=f><parameter=p>"
VLLM_FLAGS = {
    "--tensor-parallel-size": "value", "--pipeline-parallel-size": "value", "--data-parallel-size": "value",
    "--data-parallel-size-local": "value", "--enable-expert-parallel": "pair", "--max-model-len": "value",
    "--gpu-memory-utilization": "value", "--kv-cache-dtype": "value", "--max-num-seqs": "value",
    "--enforce-eager": "pair", "--reasoning-parser": "value", "--tool-call-parser": "value",
    "--enable-auto-tool-choice": "pair", "--distributed-executor-backend": "value",
    "--hf-overrides": "json", "--nnodes": "value",
}  # fmt: skip
SGLANG_FLAGS = {
    "--tensor-parallel-size": "value", "--pipeline-parallel-size": "value", "--data-parallel-size": "value",
    "--context-length": "value", "--mem-fraction-static": "value", "--nnodes": "value",
    "--enable-ep-moe": "switch", "--disable-cuda-graph": "switch", "--enable-dp-attention": "switch",
}  # fmt: skip

FLAGS = {
    "sglang": SGLANG_FLAGS,
    "llama.cpp": dict.fromkeys(("--gpu-layers", "--split-mode", "--ctx-size", "--rpc"), "value"),
    "lmdeploy": dict.fromkeys(
        ("--tp", "--backend", "--session-len", "--reasoning-parser", "--tool-call-parser"), "value"
    ),
}


def build(
    engine: str = "vllm", launchers: Iterable[str] = ("mp", "mp-multinode", "ray"), drop: Iterable[str] = ()
) -> Build:
    """A build that has these launchers and the flags above, without some."""
    flags = FLAGS.get(engine, VLLM_FLAGS)
    identity = Identity(
        f"{engine}==1.0", engine, Known("1.0"), "made by hand", NOT_HERE, Known(("any",)), NOT_HERE, NOT_HERE
    )
    return Build(
        identity,
        Transformers(NOT_HERE, NOT_HERE, NOT_HERE),
        Known({}),
        flags=Known({n: Flag(n, None, SITE, kind=k) for n, k in flags.items() if n not in set(drop)}),
        launchers=Known(tuple(launchers)),
        reasoning_parsers=Known(("deepseek_r1", "qwen3")),
        tool_parsers=Known(("hermes", "qwen3_coder")),
    )


def model(template: str | None = TEMPLATE, model_type: str = "qwen3_5_moe") -> Model:
    """A model of which little but the chat template is known."""
    return Model(
        "org/model", "hub", NOT_HERE, NOT_HERE, NOT_HERE, Known(("XForCausalLM",)), Known(model_type), NOT_HERE,
        NOT_HERE, NOT_HERE, NOT_HERE, NOT_HERE, NOT_HERE, Known(template), NOT_HERE, NOT_HERE, NOT_HERE,
    )  # fmt: skip


HOSTS = (Host("head", "10.0.0.1", "eth0", "nvidia"), Host("second", vendor="nvidia"))


def placement(parallel: Parallel, *per_host: int, first: int = 0) -> Placement:
    """Ranks dp-major, then pp, then tp, so many on each host in turn."""
    homes = [(HOSTS[h].name, first + d) for h, count in enumerate(per_host) for d in range(count)]
    ranks = []
    for number, (name, device) in enumerate(homes[: parallel.ranks]):
        tp, rest = number % parallel.tp, number // parallel.tp
        ranks.append(Rank(number, tp, rest % parallel.pp, rest // parallel.pp, name, device))
    return Placement(parallel, tuple(ranks), (48,) * parallel.pp)


def launch(made: Build, placed: Placement, **options: object) -> Launch:
    """To be started on the hosts that the placement uses."""
    used = {rank.machine for rank in placed.ranks}
    return Launch(model(), made, placed, tuple(host for host in HOSTS if host.name in used), options)


def quantity(value: float, spread: float = 0.0) -> Quantity:
    """A figure that may be off by a share of itself."""
    return Quantity(value, value - abs(value) * spread, value + abs(value) * spread, "made by hand")


def rank_memory(**changes: Quantity) -> RankMemory:
    """A rank of 100 GiB, 90 of them the budget."""
    memory = RankMemory(
        total=quantity(100 * GIB),
        budget=quantity(90 * GIB),
        weights=quantity(58 * GIB, 0.01),
        activation=quantity(2 * GIB, 0.2),
        graphs=quantity(GIB, 0.5),
        non_torch=quantity(GIB, 0.2),
        kv_available=quantity(28 * GIB, 0.05),
    )
    return replace(memory, **changes)


def serving(ranks: int = 1, **changes: object) -> Serving:
    """What these ranks hold."""
    made = Serving(
        ranks=(rank_memory(),) * ranks,
        kv_bytes_per_token=24576,
        state_bytes_per_sequence=50_000_000,
        block=16,
        kv_tokens=quantity(1_000_000, 0.05),
        context=262144,
        max_context=quantity(262144),
        max_concurrency=quantity(3.8, 0.05),
        starts=quantity(10 * GIB),
    )
    return replace(made, **changes)  # type: ignore[arg-type]
