"""Compare what the memory rules say with what engines printed: public start-up logs, and runs on H200s.

    python bench/memory.py [SHARED] [--rows]

Prints, per source and pooled: error of the weights; tokens of the cache from the printed bytes (the exact part);
available cache and concurrency from our own weights; how often the printed value lies inside the interval; starts
called impossible, and refusals said to fit. Rows outside are listed with what was expected; rows without a config are listed as not judged.
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from canserve.api import read_model
from canserve.engines import Engine, engine_named
from canserve.facts import Cause, Known, Missing
from canserve.memory.device import one_device
from canserve.memory.layers import layers
from canserve.memory.quantity import GIB, Quantity
from canserve.memory.request import Request, Serving
from canserve.rules.machines import profile
from canserve.subjects.model import Model
from canserve.subjects.parallel import Parallel, Placement, Rank

SHARED = Path(__file__).resolve().parents[2] / "shared"
STAND_INS = {
    "RedHatAI/Llama-3.3-70B-Instruct-fp8-dynamic": "meta-llama__Meta-Llama-3.1-70B",
    "redhatai/Llama-3.3-70B-Instruct-quantized.w8a8": "meta-llama__Meta-Llama-3.1-70B",
    "RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16": "meta-llama__Meta-Llama-3.1-8B",
    "RedHatAI/Qwen2.5-7B-Instruct-quantized.w8a8": "Qwen__Qwen2.5-7B-Instruct",
    "moonshotai/Kimi-Dev-72B": "Qwen__Qwen2.5-72B-Instruct",
    "ThaiLLM/ThaiLLM-30B": "Qwen__Qwen3-30B-A3B",
    "ThaiLLM-30B NVFP4 (ModelOpt; Qwen3-30B-A3B architecture)": "Qwen__Qwen3-30B-A3B",
    "openthaigpt1.5-7b-instruct NVFP4": "Qwen__Qwen2.5-7B-Instruct",
    "aisingapore/Qwen-SEA-LION-v4.5-27B-IT": "Qwen__Qwen3.5-27B",
    "google/gemma-4-26B-A4B-it": "google__gemma-4-26B-A4B",
    "google/gemma-4-26B-A4B-it-qat-q4_0-unquantized": "google__gemma-4-26B-A4B",
    "Qwen/Qwen3.6-27B-FP8": "Qwen__Qwen3.5-27B",
    "mattbucci/gemma-4-31B-AWQ": "nvidia__Gemma-4-31B-IT-NVFP4",
}
"""Models whose own config is not here, with one of the same layers. Their weights are taken as printed."""
MACHINES = (
    ("H100", "h100"), ("H200", "h200"), ("GB10", "dgx-spark"), ("A100 80GB", "a100"), ("RTX 3090", "rtx-3090"),
    ("RTX 5090", "rtx-5090"), ("RTX PRO 6000", "rtx-pro-6000"), ("GB200", "gb200"), ("B200", "b200"), ("H20", "h20"),
    ("GB300", "gb300"), ("MI300X", "mi300x"),
)  # fmt: skip

DATED = (("June 2026", "0.5.12"), ("2026-01", "0.5.8"))
"""Logs that print no version, by what is known of their date; the form of the cache is the same in all near it."""
RELEASES = {"2025-10": "0.11.0", "recipe": "0.33.0"}
"""Rows that name no release: by their date; what recipes say holds for the newest."""
NUMBERS = {"gpu-memory-utilization", "max-model-len", "max-num-seqs"}
WORDS = {"cudagraph_capture_sizes", "quantization", "load_format"}
"""Flags that the logs give in words."""
FIXED = {"vllm": "kv_cache_memory_bytes", "sglang": "kv_cache_bytes"}
"""Options that set the bytes of the cache."""


@dataclass(frozen=True, slots=True)
class Case:
    """One start that somebody logged."""

    source: str
    id: str
    engine: str
    version: str
    model: str
    config: Path | None
    own_config: bool
    machine: str
    parallel: Parallel
    options: Mapping[str, Any]
    server: bool
    started: bool
    printed: Mapping[str, float]
    """``weights``, ``available`` (GiB), ``tokens``, ``concurrency``."""


@dataclass
class Score:
    """Errors of one figure, over rows."""

    errors: list[float] = field(default_factory=list)
    inside: list[bool] = field(default_factory=list)

    def add(self, value: float, printed: float, quantity: Quantity | None = None, step: float = 0.0) -> None:
        """One row; ``step``: by how much the printed figure is rounded."""
        self.errors.append(abs(value - printed) / printed)
        if quantity is not None:
            self.inside.append(quantity.low - step <= printed <= quantity.high + step)

    def __str__(self) -> str:
        if not self.errors:
            return "no rows"
        ordered = sorted(self.errors)
        p90 = ordered[min(len(ordered) - 1, int(0.9 * len(ordered)))]
        inside = f", inside {sum(self.inside)}/{len(self.inside)}" if self.inside else ""
        return f"median {median(ordered):.2%}, p90 {p90:.2%}, {len(ordered)} rows{inside}"


def logged(shared: Path) -> Iterator[Case]:
    """Public start-up logs."""
    for line in (shared / "cases" / "memory_logs.jsonl").read_text().splitlines():
        row = json.loads(line)
        measured, layout = row["measured"], row["layout"]
        config, own = _config(shared, row["model"])
        printed = {
            "weights": measured.get("weights_gib", _largest(measured.get("sgl_mem_usage_gb"))),
            "available": measured.get("available_kv_gib", _pools(measured)),
            "tokens": measured.get("kv_tokens", measured.get("sgl_max_total_tokens")),
            "concurrency": measured.get("max_concurrency"),
        }
        yield Case(
            source="memory_logs",
            id=row["id"],
            engine=row["engine"],
            version=_version(row["engine_version"]),
            model=row["model"],
            config=config,
            own_config=own,
            machine=next((name for words, name in MACHINES if words in row["gpu"]), ""),
            parallel=Parallel(
                layout["tp"],
                layout.get("pp", 1),
                layout.get("dp", 1),
                1 if not layout.get("ep") else layout["tp"],
            ),
            options=_options(row),
            server=True,
            started=row.get("outcome") == "ok",
            printed={key: value for key, value in printed.items() if isinstance(value, int | float)},
        )


def _version(text: str) -> str:
    """The release a log names, without what was patched on it."""
    found = re.match(r"\d+(\.\d+)+\S*", text)
    return found[0] if found else next((version for words, version in DATED if words in text), text)


def _largest(value: Any) -> float | None:
    """What loading took, of all differences the log lists."""
    return max(value) if isinstance(value, list) else value


def _pools(measured: Mapping[str, Any]) -> float | None:
    """GiB of keys and values in all pools, where the log lists them pool by pool."""
    keys, values = measured.get("sgl_k_gb"), measured.get("sgl_v_gb")
    if keys is None or values is None:
        return None
    tokens = measured["sgl_tokens"]
    pools = len(set(tokens)) if isinstance(tokens, list) else 1
    return sum(sum(set(each)) if isinstance(each, list) else each * pools for each in (keys, values))


def measured(shared: Path) -> Iterator[Case]:
    """Runs of vLLM 0.25.1 on H200s, random weights of the real shapes."""
    for line in (shared / "cases" / "h200_measured.jsonl").read_text().splitlines():
        row = json.loads(line)
        engine, version = row["engine"].split()
        config, own = _config(shared, row["model"])
        options = {
            key: value for key, value in row["args"].items() if key not in {"tensor_parallel_size", "seed"}
        }
        yield Case(
            source="h200_measured",
            id=row["name"],
            engine=engine,
            version=version,
            model=row["model"],
            config=config,
            own_config=own,
            machine="h200",
            parallel=Parallel(row["tp"]),
            options=options,
            server=False,
            started=True,
            printed={
                "weights": row["weights_gib"],
                "available": row["kv_gib"],
                "tokens": row["kv_tokens_printed"],
                "concurrency": row["concurrency_x"],
            },
        )


def refused(shared: Path) -> Iterator[Case]:
    """Starts that failed for memory, where a model, a machine and a release can be told."""
    for line in (shared / "cases" / "verdict_fails.jsonl").read_text().splitlines():
        row = json.loads(line)
        if row.get("reason_class") != "memory" or row["engine"] not in FIXED:
            continue
        layout, hardware = row["layout"], row["hardware"]
        config, own = _config(shared, row["model"])
        text = f"{row['reason']} {' '.join(row.get('flags') or ())}"
        flags = dict(re.findall(r"--([a-z-]+)[ =]([\w.]+)", " ".join(row.get("flags") or ())))
        release = re.match(r"0\.\d+\.\d+", row["engine_version"])
        yield Case(
            source="refused",
            id=row["id"],
            engine=row["engine"],
            version=release[0] if release else RELEASES.get(row["engine_version"], RELEASES["recipe"]),
            model=row["model"],
            config=config,
            own_config=own,
            machine=next((name for words, name in MACHINES if words in hardware["gpu"]), ""),
            parallel=Parallel(layout["tp"] or 1, layout.get("pp") or 1),
            options={key.replace("-", "_"): value for key, value in flags.items() if key in NUMBERS},
            server=True,
            started=False,
            printed={"needed": float(found[1])} if (found := re.search(r"\(([\d.]+) GiB KV", text)) else {},
        )


def _config(shared: Path, model: str) -> tuple[Path | None, bool]:
    folder = shared / "models"
    if model in STAND_INS:
        return folder / STAND_INS[model] / "config.json", False
    for path in (folder / model.replace("/", "__"), *sorted(folder.glob(f"*__{model}"))):
        if (path / "config.json").is_file():
            return path / "config.json", True
    return None, False


def _options(row: Mapping[str, Any]) -> dict[str, Any]:
    own = (
        "gpu_memory_utilization", "max_model_len", "max_num_seqs", "max_num_batched_tokens", "kv_cache_dtype",
        "enforce_eager", "mem_fraction_static", "dtype",
    )  # fmt: skip
    options = {key: row[key] for key in own if row.get(key) is not None}
    if not isinstance(options.get("gpu_memory_utilization", 0.5), int | float):
        del options["gpu_memory_utilization"]  # the log gives the default in words
    flags = row.get("other_flags") or {}
    options |= {key: value for key, value in flags.items() if key not in WORDS}
    if found := re.search(r"method='(\w+)'.*num_spec_tokens=(\d+)", str(row.get("speculative"))):
        options["speculative_config"] = {"method": found[1], "num_speculative_tokens": int(found[2])}
    if row["layout"].get("dcp", 1) > 1:
        options["decode_context_parallel_size"] = row["layout"]["dcp"]
    if row["engine"] == "sglang":
        options.pop("max_prefill_tokens", None)
        options["context_length"] = options.pop("max_model_len", None)
        options["chunked_prefill_size"] = options.pop("max_num_batched_tokens", None)
        options["max_running_requests"] = options.pop("max_num_seqs", None)
    return {key: value for key, value in options.items() if value is not None}


def request(case: Case, model: Model, options: Mapping[str, Any]) -> Request | Missing:
    """The case as the engine's rules are asked it."""
    machine = profile(case.machine)
    if machine is None:
        return Missing(Cause.UNAVAILABLE, "no profile of its machine")
    device = one_device(machine)
    if isinstance(device, Missing):
        return device
    placement = placed(case.parallel, _depth(model))
    return Request(model, case.version, placement, (device,) * case.parallel.ranks, options, case.server)


def placed(parallel: Parallel, layers: int) -> Placement:
    """The layout on one machine, stages as even as can be."""
    ranks, number = [], 0
    for dp in range(parallel.dp):
        for pp in range(parallel.pp):
            for tp in range(parallel.tp):
                ranks.append(Rank(number, tp, pp, dp, "host", number))
                number += 1
    base, more = divmod(layers, parallel.pp)
    return Placement(parallel, tuple(ranks), tuple(base + (at < more) for at in range(parallel.pp)))


def _depth(model: Model) -> int:
    found = layers(model)
    return len(found.value) if isinstance(found, Known) else 1


def own_weights(case: Case, model: Model) -> tuple[Quantity, ...] | Missing:
    """What every rank holds by the engine's own rules, from the config alone."""
    asked, engine = request(case, model, case.options), engine_named(case.engine)
    if isinstance(asked, Missing) or engine is None:
        return asked if isinstance(asked, Missing) else Missing(Cause.UNAVAILABLE, "no such engine")
    found = engine.weights(asked)
    return found if isinstance(found, Missing) else found.value


@dataclass
class Tally:
    """All figures of one source."""

    scores: dict[str, Score] = field(default_factory=lambda: defaultdict(Score))
    rows: list[str] = field(default_factory=list)
    unjudged: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def judge(case: Case, tally: Tally) -> None:
    """One start, compared with all that its log printed."""
    engine = engine_named(case.engine)
    if case.config is None or engine is None:
        tally.unjudged.append(f"{case.id} {case.engine} {case.version} {case.model}: no config here")
        return
    model = read_model(str(case.config.parent))
    asked = request(case, model, case.options)
    if isinstance(asked, Missing):
        tally.unjudged.append(f"{case.id} {case.model}: {asked.why}")
        return
    weights = _weights(case, model, tally)
    if weights is None:
        return
    _cache(case, engine, asked, weights, tally)
    found = engine.memory(asked, weights)
    if isinstance(found, Missing):
        tally.unjudged.append(f"{case.id} {case.engine} {case.version} {case.model}: {found.why}")
        return
    _figures(case, found.value, tally)
    if case.started and impossible(found.value):
        tally.wrong.append(f"{case.id}: it started, and is called impossible")
    if not case.started:
        words = "impossible" if impossible(found.value) else "fits" if certain(found.value) else "uncertain"
        tally.rows.append(
            f"{case.id} {case.version} {case.model} tp{case.parallel.tp} {case.machine}: {words}"
        )
        if words == "fits":
            tally.wrong.append(f"{case.id}: it was refused for memory, and is said to fit")


def impossible(serving: Serving) -> bool:
    """Whether the start is ruled out, rather than uncertain."""
    refused = serving.refuses and serving.max_context.high < serving.context
    return serving.starts.high < 0 or refused or any(rank.kv_available.high <= 0 for rank in serving.ranks)


def certain(serving: Serving) -> bool:
    """Whether it is sure to start and to hold one sequence."""
    room = all(rank.kv_available.low > 0 for rank in serving.ranks)
    return room and serving.starts.low >= 0 and serving.max_context.low >= serving.context


def _weights(case: Case, model: Model, tally: Tally) -> Sequence[Quantity] | None:
    printed = case.printed.get("weights")
    if case.own_config:
        own = own_weights(case, model)
        if not isinstance(own, Missing):
            first = max(own, key=lambda each: each.value)
            if printed:
                tally.scores["weights"].add(first.value / GIB, printed, _gib(first), 0.01)
                _note(case, tally, "weights", _gib(first), printed, 0.01)
            return own
        tally.rows.append(f"{case.id}: weights {own.why}; as printed")
    if not printed:
        tally.unjudged.append(f"{case.id} {case.model}: weights neither computed nor printed")
        return None
    return (Quantity.exact(printed * GIB, "printed"),) * case.parallel.ranks


def _cache(case: Case, engine: Engine, asked: Request, weights: Sequence[Quantity], tally: Tally) -> None:
    """The part that is exact: from the printed bytes to the printed tokens and sequences."""
    room = case.printed.get("available")
    if not room:
        return
    fixed = dict(asked.options) | {FIXED.get(case.engine, ""): int(room * GIB)}
    found = engine.memory(replace(asked, options=fixed), weights)
    if isinstance(found, Missing):
        return
    for name, quantity in (("tokens", found.value.kv_tokens), ("concurrency", found.value.max_concurrency)):
        if printed := case.printed.get(name):
            tally.scores[f"{name} of the printed bytes"].add(quantity.value, printed)
            if abs(quantity.value - printed) > 0.002 * printed + 0.01 * (name == "concurrency"):
                tally.rows.append(
                    f"{case.id}: {name} of {room} GiB: {quantity.value:.6g}, printed {printed:.6g}"
                )


def _figures(case: Case, serving: Serving, tally: Tally) -> None:
    worst = min(serving.ranks, key=lambda each: each.kv_available.value)
    pairs = (
        ("available", _gib(worst.kv_available), 0.01),
        ("tokens", serving.kv_tokens, 1),
        ("concurrency", serving.max_concurrency, 0.01),
    )
    for name, quantity, step in pairs:
        if printed := case.printed.get(name):
            tally.scores[name].add(quantity.value, printed, quantity, step)
            _note(case, tally, name, quantity, printed, step)


def _note(case: Case, tally: Tally, name: str, quantity: Quantity, printed: float, step: float) -> None:
    inside = quantity.low - step <= printed <= quantity.high + step
    if not inside or abs(quantity.value - printed) > 0.08 * printed:
        words = "outside" if not inside else "far"
        tally.rows.append(
            f"{case.id} {case.version} {case.model} tp{case.parallel.tp} {case.machine}: {name} {words}:"
            f" {quantity.value:.5g} [{quantity.low:.5g}, {quantity.high:.5g}], printed {printed:.6g}"
        )


def _gib(quantity: Quantity) -> Quantity:
    return quantity.times(1 / GIB)


def main(arguments: Sequence[str]) -> int:
    """Print the table; 1 when a start is called impossible."""
    shared = next((Path(each) for each in arguments if not each.startswith("--")), SHARED)
    tallies: dict[str, Tally] = defaultdict(Tally)
    for case in (*logged(shared), *measured(shared), *refused(shared)):
        for source in (case.source, "pooled"):
            judge(case, tallies[source])
    for source, tally in tallies.items():
        print(f"== {source}")
        for name, score in sorted(tally.scores.items()):
            print(f"  {name:32} {score}")
        print(f"  {len(tally.unjudged)} rows not judged, {len(tally.wrong)} wrong verdicts")
    for line in (*tallies["pooled"].wrong, *tallies["pooled"].rows):
        print(line)
    for line in tallies["pooled"].unjudged:
        print("not judged:", line)
    return 1 if tallies["pooled"].wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
