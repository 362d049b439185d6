"""Other estimators on the same configs in the same run: ``python bench/peers.py --venvs DIR [--write]``.

``DIR`` holds throw-away environments: ``hf-mem`` and ``llmfit`` (one environment each, or the same), ``sparkrun``
(Python 3.12). They are made with ``python -m venv DIR/hf-mem && DIR/hf-mem/bin/pip install hf-mem`` and so on; a peer
whose environment is not there is left out. None may reach the network. ``--write`` writes ``bench/peers.md``.

Truth is what can be known without any estimator: for weights the bytes of the model class built on the meta device, or
what an engine printed; for a token of the cache the bytes of a pool divided by the tokens that the engine printed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from memory_cases import SHARED, measured
from memory_weights import model_of, own_weights

from canserve.engines import engine_named
from canserve.facts import Known, Missing
from canserve.memory.quantity import GIB
from memory import request

ROOT = Path(__file__).parent
META = ROOT.parent / "tests" / "memory" / "meta_device.json"
CONTEXT = 4096
MODELS = (
    "Qwen/Qwen3-8B", "meta-llama/Meta-Llama-3.1-8B", "Qwen/Qwen3-VL-8B-Instruct", "Qwen/Qwen3-30B-A3B",
    "mistralai/Mixtral-8x7B-v0.1", "openai/gpt-oss-20b", "google/gemma-4-26B-A4B", "Qwen/Qwen3.5-27B",
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "Qwen/Qwen3.5-122B-A10B-FP8", "zai-org/GLM-5.2",
    "MiniMaxAI/MiniMax-M2.5", "moonshotai/Kimi-K2.5",
)  # fmt: skip
ONE_POOL = (
    "Qwen/Qwen3-8B",
    "meta-llama/Meta-Llama-3.1-8B",
    "Qwen/Qwen3-30B-A3B",
    "mistralai/Mixtral-8x7B-v0.1",
)
"""Models whose layers all keep the same: printed bytes over printed tokens is the bytes of a token."""

HF_MEM = """
import json, sys
from hf_mem.safetensors.kv_cache import compute_safetensors_kv_cache_size
config = json.load(open(sys.argv[1])); config = config.get("text_config") or config
print(compute_safetensors_kv_cache_size(config, "BF16", int(sys.argv[2])) / int(sys.argv[2]))
"""
SPARKRUN = """
import inspect, json, sys
from sparkrun.models.vram import estimate_vram, extract_model_info
info = extract_model_info(json.load(open(sys.argv[1])))
own = {key: info.pop(key) for key in list(info) if key in inspect.signature(estimate_vram).parameters}
found = estimate_vram(**own, arch=info, max_model_len=int(sys.argv[2])).to_dict()
print(json.dumps([found["model_weights_gb"], found["kv_cache_per_token_bytes"], found["warnings"]]))
"""


@dataclass(frozen=True, slots=True)
class Figures:
    """Weights in GiB and bytes of a token of the cache; None: not given. ``note`` says why."""

    weights: float | None = None
    token: float | None = None
    note: str = ""


def _run(argv: list[str]) -> tuple[str, str]:
    """Output, or the last line of what went wrong."""
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    return (done.stdout, "") if done.returncode == 0 else ("", lines[-1][:100] if lines else "failed")


def hf_mem(venvs: Path, _model: str, config: Path) -> Figures:
    """Reads headers on the Hub; of a config alone only its cache function can be asked."""
    output, wrong = _run([str(venvs / "hf-mem/bin/python"), "-c", HF_MEM, str(config), str(CONTEXT)])
    return Figures(token=float(output) if output else None, note=wrong)


def llmfit(venvs: Path, model: str, config: Path) -> Figures:
    """Knows models by name from a table of its own; bytes by a quantization that is named to it."""
    found = []
    for context in (CONTEXT, 2 * CONTEXT):
        argv = [
            str(venvs / "llmfit/bin/llmfit"),
            "plan",
            model,
            "--context",
            str(context),
            "--quant",
            "F16",
            "--json",
        ]
        output, wrong = _run(argv)
        if not output:
            return Figures(note=wrong)
        found.append(json.loads(output))
    token = (found[1]["minimum"]["vram_gb"] - found[0]["minimum"]["vram_gb"]) * GIB / CONTEXT
    quantized = "quantization_config" in config.read_text()
    return Figures(
        None if quantized else found[0]["disk_size_gb"] * 1e9 / GIB, token or None,
        "has no fp8 or mxfp4 of published checkpoints" if quantized else "",
    )  # fmt: skip


def sparkrun(venvs: Path, _model: str, config: Path) -> Figures:
    """Takes the number of parameters from the Hub; of a config alone it sizes the cache."""
    output, wrong = _run([str(venvs / "sparkrun/bin/python"), "-c", SPARKRUN, str(config), str(CONTEXT)])
    if not output:
        return Figures(note=wrong)
    weights, token, warnings = json.loads(output.splitlines()[-1])
    return Figures(weights or None, token, "; ".join(warnings)[:160])


PEERS: dict[str, Callable[[Path, str, Path], Figures]] = {
    "hf-mem": hf_mem, "llmfit": llmfit, "sparkrun": sparkrun
}  # fmt: skip


def truth(shared: Path, model: str, config: Path) -> tuple[Figures, str]:
    """What is known without an estimator, and from where."""
    case = next((each for each in measured(shared) if model.endswith(f"/{each.model}")), None)
    token = None
    if case is not None and model in ONE_POOL:
        token = case.printed["available"] * GIB / case.printed["tokens"]
    if case is not None:
        return Figures(case.printed["weights"] * case.parallel.tp, token), "printed by the engine"
    elements = json.loads(META.read_text())["models"][config.parent.name][0]
    plain = "quantization_config" not in config.read_text()
    return Figures(elements * 2 / GIB if plain else None, token), "meta device" if plain else ""


def ours(shared: Path, model: str, config: Path) -> Figures:
    """Our own: weights over all ranks of the measured layout, else of one."""
    case = next((each for each in measured(shared) if model.endswith(f"/{each.model}")), None)
    if case is None:
        case = next(iter(measured(shared)))
    asked = request(case, model_of(json.loads(config.read_text())), case.options)
    if isinstance(asked, Missing):
        return Figures(note=asked.why)
    engine = engine_named(case.engine)
    weights = own_weights(asked, case.engine)
    served = engine.memory(asked, weights) if engine and isinstance(weights, tuple) else None
    token = served.value.kv_bytes_per_token if isinstance(served, Known) else None
    total = sum(each.value for each in weights) / GIB if isinstance(weights, tuple) else None
    return Figures(total, token * case.parallel.tp if token else None)


def _cell(value: float | None, true: float | None, form: str) -> str:
    if value is None:
        return "-"
    error = f" ({value / true - 1:+.1%})" if true else ""
    return f"{value:{form}}{error}"


def table(shared: Path, venvs: Path) -> list[str]:
    """Lines of Markdown."""
    there = {name: ask for name, ask in PEERS.items() if (venvs / name).is_dir()}
    head = ["model", "truth", "canserve", *there]
    notes: dict[str, set[str]] = {name: set() for name in there}
    rows: dict[str, list[str]] = {"weights": [], "token": []}
    for model in MODELS:
        config = shared / "models" / model.replace("/", "__") / "config.json"
        true, source = truth(shared, model, config)
        found = {"canserve": ours(shared, model, config)}
        for name, ask in there.items():
            found[name] = ask(venvs, model, config)
            if found[name].note:
                notes[name].add(found[name].note)
        weights = [_cell(each.weights, true.weights, ".2f") for each in found.values()]
        tokens = [_cell(each.token, true.token, ",.0f") for each in found.values()]
        known = f"{true.weights:.2f} ({source})" if true.weights else "-"
        rows["weights"].append(f"| {model} | {known} | {' | '.join(weights)} |")
        rows["token"].append(f"| {model} | {_cell(true.token, None, ',.0f')} | {' | '.join(tokens)} |")
    rule = f"|{'---|' * len(head)}"
    lines = ["## Weights, GiB over all ranks", "", f"| {' | '.join(head)} |", rule, *rows["weights"], ""]
    lines += [
        "## Cache of one token, bytes over all ranks",
        "",
        f"| {' | '.join(head)} |",
        rule,
        *rows["token"],
        "",
    ]
    lines += ["## Why a peer gives no figure", ""]
    return lines + [
        f"- {name}: {note}" for name, found_notes in notes.items() for note in sorted(found_notes)
    ]


def main() -> None:
    """Print the comparison, and write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--venvs", type=Path, required=True)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    text = "\n".join([*HEAD, *table(given.shared, given.venvs), ""])
    print(text)
    if given.write:
        (ROOT / "peers.md").write_text(text)


HEAD = (
    "# Beside other estimators",
    "",
    "Written by `python bench/peers.py --venvs DIR --write`. Same configs, same run, no network. Errors are against",
    "the truth in the second column, where there is one. hf-mem 0.5.6 reads a repository's headers on the Hub and has no",
    "way to take a config: offline only its function for the cache can be asked. llmfit 1.1.17 knows models by name from",
    "a table of its own, with their numbers of parameters; it takes no config either. sparkrun 0.4.2 takes a config for",
    "the cache and the number of parameters from the Hub. canserve's weights are what lies on the devices: the tables",
    "of rotary embeddings and the allocator's rounding too, which the meta device does not count. In rows that",
    "an engine printed, the layout and the options are the engine's: the founding model on two ranks, text alone.",
    "",
)

if __name__ == "__main__":
    main()
