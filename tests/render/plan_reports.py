"""Plans made by hand: every verdict, uneven ranks, and names that try to break the output."""

from __future__ import annotations

from dataclasses import replace

from reports import HOSTILE, model

from canserve.api.planning import PlanReport
from canserve.facts import Cause, Evidence, Known, Missing
from canserve.memory.quantity import GIB, Quantity
from canserve.memory.request import RankMemory, Serving
from canserve.plan.plan import Plan, Plans, Speed, Variant
from canserve.subjects.launch import Process, Start
from canserve.subjects.parallel import Illegal, Parallel, Placement, Rank
from canserve.trees.tree import Cost
from canserve.verdict import Finding, No, Skipped, Unknown, Verdict, Yes


def q(value: float, spread: float = 0.0, why: str = "made by hand") -> Quantity:
    return Quantity(value, value - abs(value) * spread, value + abs(value) * spread, why)


def memory(kv: float = 48.2) -> RankMemory:
    return RankMemory(
        total=q(121.7 * GIB),
        budget=q(109.5 * GIB),
        weights=q(57.8 * GIB, 0.01),
        activation=q(2.1 * GIB, 0.25),
        graphs=q(0.6 * GIB, 0.5),
        non_torch=q(0.8 * GIB, 0.3),
        kv_available=q(kv * GIB, 0.03),
        load_peak=q(60 * GIB),
    )


def serving(ranks: int = 2) -> Serving:
    return Serving(
        ranks=tuple(memory(48.2 - rank) for rank in range(ranks)),
        kv_bytes_per_token=12288,
        state_bytes_per_sequence=37_748_736,
        block=544,
        kv_tokens=q(4_030_000, 0.03),
        context=262144,
        max_context=q(262144),
        max_concurrency=q(15.4, 0.03),
        starts=q(6 * GIB, 0.9),
        notes=("a note of the memory rules",),
        sequences=1024,
        state_slots=q(900, 0.1),
        refuses=False,
    )


SPEED = Speed(q(31, 0.2), 43.0, q(410, 0.3), q(3900, 0.4), 9800.0, "memory bandwidth")


def placement(parallel: Parallel) -> Placement:
    ranks = (Rank(n, n % parallel.tp, n // parallel.tp, 0, ("head", "second")[n % 2], n // 2)
             for n in range(parallel.ranks))  # fmt: skip
    return Placement(parallel, tuple(ranks), (48,) * parallel.pp)


def found(verdict: Verdict, check: str) -> Finding:
    return Finding(check, "about it", verdict, (Evidence("a", "b", "c"),))


TWO = Parallel(2)


def plan(build: str = "vllm==0.17.1", parallel: Parallel = TWO, *more: Finding) -> Plan:
    serve = ("vllm", "serve", "Qwen/Qwen3.5-122B-A10B-FP8", "--tensor-parallel-size", "2",
             "--distributed-executor-backend", "mp", "--nnodes", "2", "--node-rank")  # fmt: skip
    joint = ("--master-addr", "$HEAD_IP", "--master-port", "29501", "--max-model-len", "262144")
    extra = ("--hf-overrides", '{"a": "it\'s $5"}')
    start = Start(
        (
            Process("head", (0,), (*serve, "0", *joint, *extra), {"NCCL_SOCKET_IFNAME": "enp1s0f0np0"}),
            Process("second", (1,), (*serve, "1", *joint, "--headless")),
        ),
        {"HEAD_IP": "IP address of head on the network that joins the machines"},
    )
    return Plan(
        model="Qwen/Qwen3.5-122B-A10B-FP8",
        build=build,
        engine=build.partition("=")[0],
        version="0.17.1",
        placement=placement(parallel),
        options={"max_model_len": 262144},
        serving=Known(serving(parallel.ranks)),
        speed=Known(SPEED),
        start=Known(start),
        findings=(
            found(Yes("57.8 GiB of weights fit"), "weights-fit"),
            found(Yes("64 heads divide by 2"), "heads-divide"),
            *more,
        ),
        skipped=(Skipped("graphs-fit", "it", "eager"),),
    )


def blocked(verdict: Verdict, parallel: Parallel, build: str = "vllm==0.17.1") -> Plan:
    return replace(plan(build, parallel), findings=(found(verdict, "weights-fit"),))


NO = No("115.6 GiB of weights do not fit into 109.5 GiB", "use TP2")
LACKS = Missing(Cause.UNAVAILABLE, "config.json: text_config.num_key_value_heads is missing", ask="a config")


def report() -> PlanReport:
    best = plan()
    plans = (
        best,
        plan("sglang==0.5.9"),
        replace(
            blocked(Unknown(LACKS.why, "a config"), Parallel(1, 2)), serving=LACKS, speed=LACKS, start=LACKS
        ),
        blocked(NO, Parallel()),
    )
    illegal = tuple(
        Illegal(
            Parallel(n),
            "heads-divide",
            f"32 attention heads do not divide by tensor parallel {n}",
            "use TP2 or TP4",
        )
        for n in (3, 5, 6, 7)
    )
    curve = ((4096, q(980, 0.03)), (16384, q(246, 0.03)), (65536, q(61, 0.03)), (262144, q(15.4, 0.03)))
    what_if = (
        Variant({"kv_cache_dtype": "fp8"}, best),
        Variant({"build": "vllm==0.25.1"}, blocked(NO, Parallel())),
    )
    notes = ("the context is the longest that fits: --context was not given",)
    whole = Plans("Qwen/Qwen3.5-122B-A10B-FP8", "latency", plans, illegal, curve, what_if, notes)
    return PlanReport(model(), "examples/founding/cluster.toml", whole, Cost(0, 0, 0))


def hostile() -> PlanReport:
    process = Process(HOSTILE, (0,), (HOSTILE,), {"X": HOSTILE})
    bad = replace(
        blocked(No(HOSTILE, HOSTILE), Parallel(), HOSTILE),
        model=HOSTILE, options={HOSTILE: HOSTILE}, notes=(HOSTILE,),
        start=Known(Start((process,), {"X": HOSTILE})),
    )  # fmt: skip
    whole = Plans(
        HOSTILE,
        "latency",
        (bad, bad),
        (Illegal(Parallel(2), HOSTILE, HOSTILE, HOSTILE, True, HOSTILE),),
        notes=(HOSTILE,),
    )
    return PlanReport(model(HOSTILE), HOSTILE, whole, Cost(0, 0, 0))
