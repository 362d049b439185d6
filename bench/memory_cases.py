"""What engines printed: rows of public start-up logs, of runs on H200s and of refusals, as cases to compare."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from canserve.subjects.parallel import Parallel

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


def logged(shared: Path) -> Iterator[Case]:
    """Public start-up logs."""
    for line in (shared / "cases" / "memory_logs.jsonl").read_text().splitlines():
        row = json.loads(line)
        measured, layout = row["measured"], row["layout"]
        config, own = _config(shared, row["model"])
        printed = {
            "weights": measured.get("weights_gib"),
            "free memory lost in loading": _largest(measured.get("sgl_mem_usage_gb")),
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
            own_config=own and _is_quantized(config, row.get("quantization")),
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


def _is_quantized(config: Path | None, logged: Any) -> bool:
    """Whether a config declares what the log says; where it does not, the log is of another checkpoint."""
    if config is None or not isinstance(logged, str) or logged == "None":
        return True
    told = json.loads(config.read_text()).get("quantization_config") or {}
    beside = config.with_name("hf_quant_config.json")
    if beside.exists():
        told = json.loads(beside.read_text()).get("quantization") or told
    mixed = "MIXED" in str(told.get("quant_algo", "")).upper()
    return mixed == ("mixed" in logged)


def _version(text: str) -> str:
    """The release a log names, without what was patched on it."""
    found = re.match(r"\d+(\.\d+)+\S*", text)
    return found[0] if found else next((version for words, version in DATED if words in text), text)


def _largest(value: list[float] | float | None) -> float | None:
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


def _on_h200(row: Mapping[str, Any], **more: Any) -> Case:
    """A run that was not a server, as the result of a job says it."""
    engine, version = row["engine"].split()
    return Case(
        id=row["name"],
        engine=engine,
        version=version,
        model=row["model"],
        machine="h200",
        server=False,
        **more,
    )


def _printed(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "weights": row["weights_gib"],
        "available": row["kv_gib"],
        "tokens": row["kv_tokens_printed"],
        "concurrency": row["concurrency_x"],
    }


def _arguments(row: Mapping[str, Any], *left: str) -> dict[str, Any]:
    return {
        key: value for key, value in row["args"].items() if key not in {"tensor_parallel_size", "seed", *left}
    }


def measured(shared: Path) -> Iterator[Case]:
    """Runs of vLLM 0.25.1 on H200s, random weights of the real shapes."""
    for line in (shared / "cases" / "h200_measured.jsonl").read_text().splitlines():
        row = json.loads(line)
        config, own = _config(shared, row["model"])
        yield _on_h200(
            row,
            source="h200_measured",
            config=config,
            own_config=own,
            parallel=Parallel(row["tp"]),
            options=_arguments(row),
            started=True,
            printed=_printed(row),
        )


OURS = Path(__file__).parent / "results"


def ours(shared: Path) -> Iterator[Case]:
    """Runs of our own on H200s; some of a config that was cut for the run."""
    for path in sorted(OURS.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            ep = row["tp"] if row["args"].get("enable_expert_parallel") else 1
            printed = {
                **_printed(row),
                "activation": row["torch_peak_increase_gib"],
                "outside torch": row["non_torch_increase_gib"],
            }
            yield _on_h200(
                row,
                source="ours",
                config=_changed(shared / "models" / row["model"], row["config_changes"]),
                own_config=True,
                parallel=Parallel(row["tp"], ep=ep),
                options=_arguments(row, "enable_expert_parallel"),
                started="refused" not in row,
                printed=printed,
            )


@cache
def _scratch() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="canserve-bench-")


def _changed(folder: Path, changes: Mapping[str, Any]) -> Path:
    """The config as the run had it. A file that is changed to nothing is left out."""
    if not changes:
        return folder / "config.json"
    copy = Path(tempfile.mkdtemp(dir=_scratch().name)) / folder.name
    copy.mkdir()
    for path in folder.glob("*.json"):
        if path.name not in changes:
            (copy / path.name).write_bytes(path.read_bytes())
    fields = {key: value for key, value in changes.items() if not key.endswith(".json")}
    config = json.loads((folder / "config.json").read_text()) | fields
    (copy / "config.json").write_text(json.dumps(config))
    return copy / "config.json"


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
