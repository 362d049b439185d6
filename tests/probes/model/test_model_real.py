"""Real configs that lie beside the repository, and the founding model from its example."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from model_making import known

from canserve.facts import Known, Missing
from canserve.probes.model import read_model
from canserve.subjects.model import Model

EXAMPLE = Path(__file__).parents[3] / "examples" / "founding" / "model"

METHODS = {
    "Qwen__Qwen3.5-122B-A10B-FP8": ("fp8", "fp8", None),
    "Qwen__Qwen3-32B-FP8-Static-PerTensor": ("modelopt", "FP8", "fp8"),
    "moonshotai__Kimi-K2.5": ("compressed-tensors", "compressed-tensors", None),
    "moonshotai__Kimi-K3": ("compressed-tensors", "compressed-tensors", None),
    "nvidia__DeepSeek-V3.1-NVFP4": ("modelopt_fp4", "NVFP4", "fp8"),
    "nvidia__DeepSeek-V4-Flash-NVFP4": ("fp8", "fp8", None),
    "nvidia__GLM-5.1-NVFP4": ("modelopt_fp4", "modelopt", "fp8"),
    "nvidia__Llama-3.1-70B-Instruct-FP8": ("modelopt", "FP8", "fp8"),
    "nvidia__NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4": ("modelopt_mixed", "MIXED_PRECISION", "fp8"),
    "nvidia__Qwen3.6-27B-NVFP4": ("modelopt_mixed", "modelopt", "fp8"),
    "openai__gpt-oss-120b": ("mxfp4", "mxfp4", None),
}


def folders(shared: Path) -> list[Path]:
    return sorted(path for path in (shared / "models").iterdir() if path.is_dir())


def test_every_config_is_read_and_every_quantization_recognized(shared: Path) -> None:
    models = {path.name: read_model(str(path)) for path in folders(shared)}
    assert len(models) > 200
    methods: Counter[str] = Counter()
    for name, model in models.items():
        raw = json.loads((shared / "models" / name / "config.json").read_text())
        assert known(model.architectures) == tuple(raw.get("architectures") or ())
        assert known(model.model_type) == raw.get("model_type")
        for fact in (model.nested, model.mtp_layers, model.dtype, model.max_positions, model.auto_map):
            known(fact)
        found = known(model.quantization)
        beside = shared / "models" / name / "hf_quant_config.json"
        assert (found is not None) == ("quantization_config" in json.dumps(raw) or beside.exists()), name
        if found is not None:
            methods[found.method] += 1
            assert found.schemes, name
            assert all(scheme.weight_bits for scheme in found.schemes), name
    assert methods == {
        "fp8": 22, "modelopt_fp4": 19, "modelopt": 4, "modelopt_mixed": 3, "compressed-tensors": 3,
        "mxfp4": 2,
    }  # fmt: skip


def test_real_dialects_by_name(shared: Path) -> None:
    for name, expected in METHODS.items():
        found = known(read_model(str(shared / "models" / name)).quantization)
        assert (found.method, found.declared, found.kv_cache) == expected, name


def test_a_bare_real_config_says_the_same(shared: Path) -> None:
    for path in folders(shared):
        whole, bare = read_model(str(path)), read_model(str(path / "config.json"))
        same = ("architectures", "model_type", "nested", "dtype", "max_positions", "mtp_layers")
        for name in same:
            assert known(getattr(bare, name)) == known(getattr(whole, name)), (path.name, name)
        match bare.quantization:
            case Known(value):
                assert value == known(whole.quantization)
            case Missing():
                assert known(whole.quantization) is None or not declares(path)


def declares(path: Path) -> bool:
    return "quantization_config" in (path / "config.json").read_text()


def founding() -> Model:
    return read_model(str(EXAMPLE))


def test_the_founding_model_is_counted_from_its_header_facts() -> None:
    """The name says 122B (its page 125B); the headers say 123 G of F8_E4M3, 125 G in all."""
    parameters = known(founding().parameters)
    assert parameters.by_dtype["F8_E4M3"] == 123_035_713_536
    assert round(parameters.total / 1e9) == 125
    assert round(parameters.bytes / 2 / 1e9) == 64  # a rank of two
    assert parameters.by_dtype.keys() == {"F8_E4M3", "BF16", "F32"}
    assert "not a copy" in founding().parameters.evidence[0].saw


def test_the_founding_models_tensors_follow_from_its_config() -> None:
    config = json.loads((EXAMPLE / "config.json").read_text())
    text = config["text_config"]
    layers, width = text["num_hidden_layers"] + text["mtp_num_hidden_layers"], text["hidden_size"]
    experts = layers * text["num_experts"] * 3 * width * text["moe_intermediate_size"]
    shared = layers * 3 * width * text["shared_expert_intermediate_size"]
    heads, groups, head = text["num_attention_heads"], text["num_key_value_heads"], text["head_dim"]
    attention = width * head * (2 * heads + 2 * groups + heads)  # the query projection carries a gate
    keys = text["linear_num_key_heads"] * text["linear_key_head_dim"]
    values = text["linear_num_value_heads"] * text["linear_value_head_dim"]
    linear = width * (2 * keys + values + values + values)
    full = text["layer_types"].count("full_attention")
    total = experts + shared + (full + 1) * attention + (text["num_hidden_layers"] - full) * linear
    assert known(founding().parameters).by_dtype["F8_E4M3"] == total


def test_the_founding_model_as_a_whole() -> None:
    model = founding()
    assert known(model.architectures) == ("Qwen3_5MoeForConditionalGeneration",)
    assert known(model.model_type) == "qwen3_5_moe"
    assert [item.key for item in known(model.nested)] == ["text_config", "vision_config"]
    quantization = known(model.quantization)
    assert (quantization.method, quantization.schemes[0].block) == ("fp8", (128, 128))
    assert known(model.mtp_layers) == 1
    assert known(model.weight_format) == "safetensors"
    assert known(model.tokenizer).kind == "fast"
    assert known(model.processor).class_name == "Qwen3VLProcessor"
    assert "<think>" in known(model.chat_template)


def test_ignored_modules_of_the_founding_model_are_stored_unquantized() -> None:
    headers: dict[str, Any] = json.loads((EXAMPLE / "model.headers.json").read_text())
    stored = {entry["name"]: entry["dtype"] for entry in headers["tensors"]}
    for ignored in known(founding().quantization).ignored:
        parts = ignored.split(".")
        name = ".".join(
            {"layers": "{layer}", "blocks": "{block}"}.get(before, part) if part.isdigit() else part
            for before, part in zip(["", *parts], parts, strict=False)
        ).replace("mtp.layers.{layer}", "mtp.layers.0")
        assert stored[f"{name}.weight"] == "BF16", ignored
