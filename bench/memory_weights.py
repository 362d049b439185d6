"""Weights per rank against what engines printed: ``python bench/memory_weights.py [--shared DIR] [-v]``.

Each row of the logs and of the H200 runs that prints weights is judged where the model's config is there, or
follows with certainty from one that is (``DERIVED``): the same architecture with the quantization that the model's
name and the log state; where the config here is a list of facts, the numbers that it lacks. What is not judged is listed with the reason.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from memory_cases import SHARED, Case, logged, measured

from canserve.engines import engine_named
from canserve.facts import Known, Missing
from canserve.memory.quantity import GIB, Quantity
from canserve.memory.request import Request
from canserve.probes.model.reading import read_model
from canserve.subjects.model import Model
from memory import request

Config = dict[str, Any]
Change = Callable[[Config], Config]


def _group(kind: str, bits: int, strategy: str, size: int | None = None) -> Config:
    return {"num_bits": bits, "type": kind, "strategy": strategy, "group_size": size, "symmetric": True}


def _compressed(form: str, weights: Config, activations: Config | None) -> Change:
    def change(config: Config) -> Config:
        group = {"targets": ["Linear"], "weights": weights, "input_activations": activations, "format": form}
        quantization = {
            "quant_method": "compressed-tensors", "format": form, "ignore": ["lm_head"],
            "config_groups": {"group_0": group},
        }  # fmt: skip
        return config | {"quantization_config": quantization}

    return change


def _gptq(config: Config) -> Config:
    quantization = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": True, "sym": True}
    return config | {"quantization_config": quantization, "dtype": "float16"}


def _modelopt(config: Config) -> Config:
    group = {"weights": {"num_bits": 4, "type": "float", "group_size": 16}, "targets": ["Linear"]}
    group["input_activations"] = {"num_bits": 4, "type": "float", "group_size": 16}
    quantization = {
        "quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"], "config_groups": {"group_0": group}
    }  # fmt: skip
    return config | {"quantization_config": quantization}


def _block_fp8(config: Config) -> Config:
    left = ["lm_head", "visual", "mtp", "embed_tokens", "in_proj_a", "in_proj_b", "conv1d"]
    quantization = {
        "quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic",
        "modules_to_not_convert": left,
    }  # fmt: skip
    return config | {"quantization_config": quantization}


def _numbers(**values: Any) -> Change:
    return lambda config: config | values


_FP8 = _compressed(
    "float-quantized", _group("float", 8, "channel"), _group("float", 8, "token") | {"dynamic": True}
)
_INT8 = _compressed(
    "int-quantized", _group("int", 8, "channel"), _group("int", 8, "token") | {"dynamic": True}
)
_NVFP4 = _compressed(
    "nvfp4-pack-quantized", _group("float", 4, "tensor_group", 16), _group("float", 4, "tensor_group", 16)
)
_SIGLIP = {
    "hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27, "num_attention_heads": 16,
    "patch_size": 14, "image_size": 896, "vision_use_head": False,
}  # fmt: skip
_GEMMA3 = _numbers(vision_config=_SIGLIP, rope_scaling={"rope_type": "linear", "factor": 8.0})
_QWEN2_5 = _numbers(vocab_size=152064, max_position_embeddings=32768)
_GRANITE = {
    "model_type": "granite", "architectures": ["GraniteForCausalLM"], "num_hidden_layers": 40,
    "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 49155, "tie_word_embeddings": True,
    "max_position_embeddings": 131072, "torch_dtype": "bfloat16",
}  # fmt: skip

_KIMI_VL = {
    "model_type": "kimi_vl", "architectures": ["KimiVLForConditionalGeneration"], "torch_dtype": "bfloat16",
    "text_config": {
        "model_type": "deepseek_v3", "vocab_size": 163840, "hidden_size": 2048, "intermediate_size": 11264,
        "moe_intermediate_size": 1408, "num_hidden_layers": 27, "num_attention_heads": 16,
        "num_key_value_heads": 16, "n_shared_experts": 2, "n_routed_experts": 64, "num_experts_per_tok": 6,
        "kv_lora_rank": 512, "q_lora_rank": None, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128,
        "v_head_dim": 128, "first_k_dense_replace": 1, "moe_layer_freq": 1, "max_position_embeddings": 131072,
        "tie_word_embeddings": False,
    },
    "vision_config": {
        "model_type": "moonvit", "patch_size": 14, "init_pos_emb_height": 64, "init_pos_emb_width": 64,
        "num_attention_heads": 16, "num_hidden_layers": 27, "hidden_size": 1152, "intermediate_size": 4304,
        "merge_kernel_size": [2, 2],
    },
}  # fmt: skip

DERIVED: Mapping[str, tuple[str, Change]] = {
    "codellama/CodeLlama-7b-hf": (
        "codellama__CodeLlama-34b-hf",
        _numbers(
            hidden_size=4096, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=32, head_dim=128,
            intermediate_size=11008, vocab_size=32016,
        ),
    ),
    "RedHatAI/Llama-3.3-70B-Instruct-fp8-dynamic": ("meta-llama__Meta-Llama-3.1-70B", _FP8),
    "redhatai/Llama-3.3-70B-Instruct-quantized.w8a8": ("meta-llama__Meta-Llama-3.1-70B", _INT8),
    "RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16": ("meta-llama__Meta-Llama-3.1-8B", _gptq),
    "RedHatAI/Qwen2.5-7B-Instruct-quantized.w8a8": ("Qwen__Qwen2.5-7B-Instruct", lambda config: _INT8(_QWEN2_5(config))),
    "moonshotai/Kimi-VL-A3B-Instruct": ("", lambda _: _KIMI_VL),
    "moonshotai/Kimi-Dev-72B": ("Qwen__Qwen2.5-72B-Instruct", _numbers()),
    "ThaiLLM/ThaiLLM-30B": ("Qwen__Qwen3-30B-A3B", _numbers()),
    "ThaiLLM-30B NVFP4 (ModelOpt; Qwen3-30B-A3B architecture)": ("Qwen__Qwen3-30B-A3B", _modelopt),
    "openthaigpt1.5-7b-instruct NVFP4": ("Qwen__Qwen2.5-7B-Instruct", lambda config: _NVFP4(_QWEN2_5(config))),
    "aisingapore/Qwen-SEA-LION-v4.5-27B-IT": ("Qwen__Qwen3.5-27B", _numbers()),
    "google/gemma-4-26B-A4B-it": ("google__gemma-4-26B-A4B", _numbers()),
    "google/gemma-4-26B-A4B-it-qat-q4_0-unquantized": ("google__gemma-4-26B-A4B", _numbers()),
    "Qwen/Qwen3.6-27B-FP8": ("Qwen__Qwen3.5-27B", _block_fp8),
    "google/gemma-7b": (
        "google__gemma-2b",
        _numbers(
            hidden_size=3072, num_hidden_layers=28, num_attention_heads=16, num_key_value_heads=16, head_dim=256,
            intermediate_size=24576,
        ),
    ),
    "google/gemma-3-4b-it": ("google__gemma-3-4b-it", _GEMMA3),
    "google/gemma-3-12b-it": ("google__gemma-3-12b-it", _GEMMA3),
    "Qwen/Qwen2.5-7B-Instruct": ("Qwen__Qwen2.5-7B-Instruct", _QWEN2_5),
    "Qwen/Qwen2.5-1.5B-Instruct": (
        "Qwen__Qwen2.5-1.5B-Instruct",
        _numbers(vocab_size=151936, max_position_embeddings=32768, tie_word_embeddings=True),
    ),
    "ibm-granite/granite-3.1-2b-instruct": (
        "", lambda _: _GRANITE | {"hidden_size": 2048, "intermediate_size": 8192}
    ),
    "ibm-granite/granite-3.1-8b-instruct": (
        "", lambda _: _GRANITE | {"hidden_size": 4096, "intermediate_size": 12800}
    ),
}  # fmt: skip
"""Models without a config of their own here: the folder whose architecture they share, and what differs."""


@dataclass(frozen=True, slots=True)
class Judged:
    """One row: what was printed and what is computed, in GiB."""

    case: Case
    printed: float
    computed: Quantity

    @property
    def error(self) -> float:
        """Signed, relative to what was printed."""
        return self.computed.value / GIB / self.printed - 1

    @property
    def inside(self) -> bool:
        """Whether the printed value, rounded to 0.01 GiB, lies in the interval."""
        return self.computed.low - 0.005 * GIB <= self.printed * GIB <= self.computed.high + 0.005 * GIB


def config_of(case: Case, shared: Path) -> Config | None:
    """The config of a case's model, its own or derived."""
    if case.model in DERIVED:
        folder, change = DERIVED[case.model]
        path = shared / "models" / folder / "config.json"
        return change(json.loads(path.read_text()) if folder else {})
    if case.config is None or not case.own_config:
        return None
    config: Config = json.loads(case.config.read_text())
    return config


def model_for(case: Case, shared: Path) -> Model | str:
    """The model of a case, or why there is none that is certainly the one that was logged."""
    config = config_of(case, shared)
    if config is None:
        return "no config here, and none that certainly has its parameters"
    if case.model in DERIVED or case.config is None:
        return model_of(config)
    model = read_model(str(case.config.parent))
    said = {row["id"]: str(row.get("quantization")) for row in _rows(shared)}.get(case.id, "")
    known = model.quantization.value if isinstance(model.quantization, Known) else None
    if "mixed" in said and (known is None or "mixed" not in known.method):
        return f"the log says {said}, the files here {known.method if known else 'nothing'}"
    return model


def _rows(shared: Path) -> list[Config]:
    return [json.loads(line) for line in (shared / "cases" / "memory_logs.jsonl").read_text().splitlines()]


def model_of(config: Config) -> Model:
    """A model with this config and nothing else."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(config))
        return read_model(folder)


def own_weights(asked: Request, engine: str) -> tuple[Quantity, ...] | Missing:
    """What every rank holds, as the engine's rules say."""
    rules = engine_named(engine)
    if rules is None:
        raise LookupError(engine)
    found = rules.weights(asked)
    return found if isinstance(found, Missing) else found.value


def judged(shared: Path) -> Iterator[Judged | str]:
    """Every row with a figure of weights, or why it is not judged."""
    for case in (*logged(shared), *measured(shared)):
        printed = case.printed.get("weights")
        if printed is None:
            continue
        model = model_for(case, shared)
        if isinstance(model, str):
            yield f"{case.id} {case.model}: {model}"
            continue
        asked = request(case, model, case.options)
        found = asked if isinstance(asked, Missing) else own_weights(asked, case.engine)
        if isinstance(found, Missing):
            yield f"{case.id} {case.model}: {found.why}"
            continue
        yield Judged(case, printed, max(found, key=lambda each: each.value))


def _line(rows: list[Judged]) -> str:
    errors = sorted(abs(row.error) for row in rows)
    p90 = errors[min(len(errors) - 1, int(0.9 * len(errors)))]
    inside = sum(row.inside for row in rows)
    return f"median {median(errors):.2%}, p90 {p90:.2%}, worst {errors[-1]:.2%}, inside {inside}/{len(rows)}"


def main() -> None:
    """Print the table, per source and pooled."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shared", type=Path, default=SHARED)
    shared = parser.parse_args().shared
    rows: list[Judged] = []
    left: list[str] = []
    for row in judged(shared):
        if isinstance(row, Judged):
            rows.append(row)
        else:
            left.append(row)
    print(f"{'row':18} {'model':48} {'layout':8} {'printed':>8} {'computed':>8} {'error':>7}")
    for row in rows:
        parallel = row.case.parallel
        layout = f"tp{parallel.tp}" + (f" pp{parallel.pp}" if parallel.pp > 1 else "")
        mark = "" if row.inside else "  outside"
        print(
            f"{row.case.id:18} {row.case.model[:48]:48} {layout:8} {row.printed:8.2f} "
            f"{row.computed.value / GIB:8.2f} {row.error:+7.2%}{mark}"
        )
    alone = [row for row in rows if row.case.engine == "vllm"]
    for source in sorted({row.case.source for row in alone}):
        print(f"{source}: {_line([row for row in alone if row.case.source == source])}")
    print(f"pooled: {_line(alone)}")
    others = [row for row in rows if row.case.engine != "vllm"]
    print(f"what fell off free memory while loading, with all that the process takes beside: {_line(others)}")
    print("not judged:", *left, sep="\n  ")


if __name__ == "__main__":
    main()
