"""How quantized checkpoints store what a config implies, and which modules they leave out."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from canserve.facts import Known, Missing
from canserve.memory.fields import Lacking
from canserve.memory.weights.ignored import Ignored
from canserve.memory.weights.implied import implied
from canserve.probes.model.reading import read_model
from canserve.subjects.tensor import Tensor

DENSE = {
    "model_type": "qwen3", "hidden_size": 256, "num_hidden_layers": 1, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 64, "intermediate_size": 320, "vocab_size": 100,
    "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip
UP = "model.layers.0.mlp.up_proj"


def listed(folder: Path, config: Mapping[str, Any]) -> dict[str, Tensor]:
    """The implied tensors by name."""
    (folder / "config.json").write_text(json.dumps(config))
    found = implied(read_model(str(folder)))
    assert isinstance(found, Known), found
    return {tensor.name: tensor for tensor in found.value}


def kept(
    folder: Path, quantization: Mapping[str, Any], module: str = UP
) -> dict[str, tuple[tuple[int, ...], str]]:
    """What is stored for one module: shapes and dtypes by the rest of the name."""
    tensors = listed(folder, DENSE | {"quantization_config": quantization})
    return {
        name.removeprefix(module): (tensor.shape, tensor.dtype)
        for name, tensor in tensors.items()
        if name.startswith(module)
    }


def group(form: str, weights: Mapping[str, Any], inputs: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A declaration of compressed-tensors."""
    one = {"targets": ["Linear"], "weights": weights, "input_activations": inputs, "format": form}
    return {
        "quant_method": "compressed-tensors", "format": form, "ignore": ["lm_head"], "config_groups": {"g": one}
    }  # fmt: skip


INT4 = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128, "symmetric": True}
FP4 = {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16, "symmetric": True}
CASES: dict[str, tuple[dict[str, Any], dict[str, tuple[tuple[int, ...], str]]]] = {
    "block fp8": (
        {"quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic"},
        {".weight": ((320, 256), "F8_E4M3"), ".weight_scale_inv": ((3, 2), "BF16")},
    ),
    "static fp8": (
        {"quant_method": "fp8", "activation_scheme": "static"},
        {".weight": ((320, 256), "F8_E4M3"), ".weight_scale": ((), "F32"), ".input_scale": ((), "F32")},
    ),
    "modelopt fp8": (
        {"quant_method": "modelopt", "quant_algo": "FP8"},
        {".weight": ((320, 256), "F8_E4M3"), ".weight_scale": ((), "F32"), ".input_scale": ((), "F32")},
    ),
    "modelopt nvfp4": (
        {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16},
        {
            ".weight": ((320, 128), "U8"), ".weight_scale": ((320, 16), "F8_E4M3"),
            ".weight_scale_2": ((), "F32"), ".input_scale": ((), "F32"),
        },
    ),
    "channel fp8": (
        group("float-quantized", {"num_bits": 8, "type": "float", "strategy": "channel"}),
        {".weight": ((320, 256), "F8_E4M3"), ".weight_scale": ((320, 1), "BF16")},
    ),
    "int8": (
        group("int-quantized", {"num_bits": 8, "type": "int", "strategy": "channel"}),
        {".weight": ((320, 256), "I8"), ".weight_scale": ((320, 1), "BF16")},
    ),
    "packed int4": (
        group("pack-quantized", INT4),
        {
            ".weight_packed": ((320, 32), "I32"), ".weight_scale": ((320, 2), "BF16"),
            ".weight_shape": ((2,), "I64"),
        },
    ),
    "nvfp4": (
        group("nvfp4-pack-quantized", FP4, FP4),
        {
            ".weight_packed": ((320, 128), "U8"), ".weight_scale": ((320, 16), "F8_E4M3"),
            ".weight_global_scale": ((1,), "F32"), ".input_global_scale": ((1,), "F32"),
        },
    ),
    "mxfp4": (
        group("mxfp4-pack-quantized", FP4 | {"strategy": "group", "group_size": 32}),
        {".weight_packed": ((320, 128), "U8"), ".weight_scale": ((320, 8), "U8")},
    ),
    "gptq": (
        {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False},
        {
            ".qweight": ((32, 320), "I32"), ".qzeros": ((2, 40), "I32"), ".scales": ((2, 320), "F16"),
            ".g_idx": ((256,), "I32"),
        },
    ),
    "awq": (
        {"quant_method": "awq", "bits": 4, "group_size": 128},
        {".qweight": ((256, 40), "I32"), ".qzeros": ((2, 40), "I32"), ".scales": ((2, 320), "F16")},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_is_stored(tmp_path: Path, name: str) -> None:
    quantization, expected = CASES[name]
    assert kept(tmp_path, quantization) == expected


@pytest.mark.parametrize("method", ["unheard-of", "quark", "hqq", "torchao"])
def test_an_unknown_method_is_missing_not_plain(tmp_path: Path, method: str) -> None:
    config = DENSE | {"quantization_config": {"quant_method": method, "bits": 4}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    found = implied(read_model(str(tmp_path)))
    assert isinstance(found, Missing) and method in found.why


def test_heads_norms_and_routers_stay_plain(tmp_path: Path) -> None:
    config = DENSE | {
        "model_type": "qwen3_moe", "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 128,
        "quantization_config": CASES["block fp8"][0],
    }  # fmt: skip
    tensors = listed(tmp_path, config)
    assert tensors["lm_head.weight"].dtype == tensors["model.layers.0.mlp.gate.weight"].dtype == "BF16"
    expert = tensors["model.layers.0.mlp.experts.*.up_proj.weight"]
    assert (expert.dtype, expert.shape, expert.copies) == ("F8_E4M3", (128, 256), 4)
    assert tensors["model.layers.0.mlp.experts.*.up_proj.weight_scale_inv"].copies == 4


def test_scales_of_the_cache_are_stored_where_it_is_quantized(tmp_path: Path) -> None:
    declared = CASES["modelopt fp8"][0] | {"kv_cache_quant_algo": "FP8"}
    assert kept(tmp_path, declared, "model.layers.0.self_attn.k_proj.k_scale") == {"": ((), "F32")}


def test_stacked_experts_in_mxfp4(shared: Path) -> None:
    found = implied(read_model(str(shared / "models" / "openai__gpt-oss-20b")))
    assert isinstance(found, Known)
    by_name = {tensor.name: tensor for tensor in found.value}
    blocks = by_name["model.layers.0.mlp.experts.gate_up_proj_blocks"]
    assert (blocks.shape, blocks.dtype) == ((32, 5760, 90, 16), "U8")
    assert by_name["model.layers.0.mlp.experts.down_proj_scales"].shape == (32, 2880, 90)
    assert sum(tensor.bytes for tensor in found.value) == 13_761_264_768


@pytest.mark.parametrize(
    ("folder", "dtype", "elements"),
    [
        ("deepseek-ai__DeepSeek-V3", "F8_E4M3", 680_571_043_840),
        ("nvidia__DeepSeek-V3.1-NVFP4", "U8", 0),
        ("moonshotai__Kimi-K2.5", "I32", 384 * 60 * 3 * 7168 * 2048 // 8),
    ],
)
def test_packed_elements_of_published_configs(shared: Path, folder: str, dtype: str, elements: int) -> None:
    found = implied(read_model(str(shared / "models" / folder)))
    assert isinstance(found, Known)
    counted = sum(tensor.elements for tensor in found.value if tensor.dtype == dtype)
    assert counted == elements or (not elements and counted > 0)


def test_mixed_precision_goes_by_module(shared: Path) -> None:
    found = implied(read_model(str(shared / "models" / "nvidia__Qwen3.6-27B-NVFP4")))
    assert isinstance(found, Known)
    dtypes = {tensor.name: tensor.dtype for tensor in found.value}
    layer = "model.language_model.layers.0"
    assert dtypes[f"{layer}.linear_attn.out_proj.weight"] == "F8_E4M3"
    assert dtypes[f"{layer}.mlp.gate_proj.weight"] == "U8"
    assert dtypes[f"{layer}.linear_attn.in_proj_a.weight"] == "BF16"
    assert f"{layer}.mlp.gate_proj.input_scale" not in dtypes  # activations stay in sixteen bits
    assert dtypes["mtp.layers.0.mlp.gate_proj.weight"] == "BF16"


@pytest.mark.parametrize(
    ("folder", "experts", "attention"),
    [
        ("deepseek-ai__DeepSeek-V4-Flash", ("I8", "F8_E8M0"), "F8_E4M3"),
        ("nvidia__DeepSeek-V4-Flash-NVFP4", ("U8", "F8_E4M3"), "F8_E4M3"),
        ("sgl-project__DeepSeek-V4-Flash-FP8", ("F8_E4M3", "F8_E8M0"), "F8_E4M3"),
    ],
)
def test_experts_of_other_bits_than_the_rest(
    shared: Path, folder: str, experts: tuple[str, str], attention: str
) -> None:
    found = implied(read_model(str(shared / "models" / folder)))
    assert isinstance(found, Known)
    by_name = {tensor.name: tensor for tensor in found.value}
    weight = by_name["layers.5.ffn.experts.*.w1.weight"]
    scales = [
        each
        for name, each in by_name.items()
        if name.startswith("layers.5.ffn.experts.*.w1.") and "scale" in name
    ]
    assert (weight.dtype, scales[0].dtype) == experts
    assert by_name["layers.5.attn.wq_b.weight"].dtype == attention
    assert by_name["layers.5.ffn.shared_experts.w1.weight"].dtype == "F8_E4M3"


@pytest.mark.parametrize(
    ("pattern", "module", "expected"),
    [
        ("lm_head", "lm_head", True),
        ("mlp.gate", "model.layers.0.mlp.gate", True),
        ("mlp.gate", "model.layers.0.mlp.gate_proj", False),
        ("model.layers.1", "model.layers.10.mlp.up_proj", False),
        ("model.layers.1", "model.layers.1.mlp.up_proj", True),
        ("model.layers.3.mlp.experts.0.up_proj", "model.layers.3.mlp.experts.*.up_proj", True),
        ("model.layers.0*", "model.layers.0.self_attn.q_proj", True),
        ("*.mlp.shared_expert.*", "model.layers.9.mlp.shared_expert.up_proj", True),
        ("model.layers.*.self_attn", "model.layers.9.self_attn.q_proj", True),
        ("re:.*self_attn.*", "model.layers.9.self_attn.q_proj", True),
        ("re:.*mlp\\.(gate|up|gate_up|down)_proj.*", "model.layers.9.mlp.up_proj", True),
        ("re:.*mlp\\.(gate|up|gate_up|down)_proj.*", "model.layers.9.mlp.experts.*.up_proj", False),
        ("re:vision_tower.*", "model.vision_tower.x", False),
    ],
)
def test_patterns(pattern: str, module: str, expected: bool) -> None:
    assert Ignored((pattern,), "ignore").leaves_out(module) is expected


@pytest.mark.parametrize(
    "pattern",
    ["re:(a+)+$", "re:(.*)*x", "re:a{1,99999}b", "re:.*.*.*.*x", "re:(", "re:" + "a" * 999, "*a*a*a*a*b"],
)
def test_patterns_that_could_take_for_ever_are_refused(pattern: str) -> None:
    started = time.process_time()
    with pytest.raises(Lacking):
        Ignored((pattern,), "ignore").leaves_out("a" * 80)
    assert time.process_time() - started < 1


@pytest.mark.parametrize("value", [0, -5, None, [], "128", {"a": 1}, 10**12])
def test_group_sizes_that_are_none(tmp_path: Path, value: object) -> None:
    for quantization in (
        {"quant_method": "gptq", "bits": 4, "group_size": value},
        {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": value},
        {"quant_method": "fp8", "weight_block_size": [value, value], "activation_scheme": "dynamic"},
        {
            "quant_method": "modelopt",
            "quant_algo": "MIXED_PRECISION",
            "quantized_layers": {"a.b": {"quant_algo": value}},
        },
    ):
        (tmp_path / "config.json").write_text(json.dumps(DENSE | {"quantization_config": quantization}))
        found = implied(read_model(str(tmp_path)))
        if isinstance(found, Known):
            assert all(size >= 0 for tensor in found.value for size in tensor.shape)
