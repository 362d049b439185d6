"""Which kernels a preflight tries for a plan: from the model's dtype and quantization, and from the options."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from canserve.api import read_model
from canserve.plan.kernels import needed
from canserve.probes.preflight.kernels import TRIALS

CONFIG = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "torch_dtype": "bfloat16", "hidden_size": 64,
    "num_hidden_layers": 2, "num_attention_heads": 4,
}  # fmt: skip
BLOCKS = {"quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic"}
INT4 = {
    "quant_method": "compressed-tensors", "format": "pack-quantized",
    "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "group_size": 128, "strategy": "group"}}},
}  # fmt: skip
INT8 = {
    "quant_method": "compressed-tensors", "format": "int-quantized",
    "config_groups": {
        "group_0": {
            "targets": ["Linear"], "weights": {"num_bits": 8, "type": "int", "strategy": "channel"},
            "input_activations": {"num_bits": 8, "type": "int", "dynamic": True},
        }
    },
}  # fmt: skip


def kernels(
    folder: Path, quantization: Any = None, options: dict[str, object] | None = None, **config: Any
) -> set[str]:
    more = {} if quantization is None else {"quantization_config": quantization}
    (folder / "config.json").write_text(json.dumps({**CONFIG, **more, **config}))
    found = needed(read_model(str(folder)), options or {})
    assert all(need.because for need in found) and len({need.kernel for need in found}) == len(found)
    assert all(need.kernel in TRIALS for need in found)
    return {need.kernel for need in found}


@pytest.mark.parametrize(
    ("quantization", "expected"),
    [
        (None, set()),
        (BLOCKS, {"fp8"}),
        ({"quant_method": "fp8", "activation_scheme": "static"}, {"fp8-scaled"}),
        ({"quant_method": "mxfp4"}, {"mxfp4"}),
        (INT4, {"int4"}),
        (INT8, {"int8"}),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, {"int4"}),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, {"int4"}),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16}, {"fp4"}),
        ({"quant_method": "nobody-knows"}, set()),
    ],
)
def test_by_how_weights_are_stored(tmp_path: Path, quantization: Any, expected: set[str]) -> None:
    assert kernels(tmp_path, quantization) == {"bfloat16", "triton"} | expected


def test_by_the_dtype(tmp_path: Path) -> None:
    assert kernels(tmp_path, torch_dtype="float16") == {"float16", "triton"}
    assert kernels(tmp_path, torch_dtype="float16", options={"dtype": "half"}) == {"float16", "triton"}
    assert kernels(tmp_path, torch_dtype="float16", options={"dtype": "float32"}) == {"float32", "triton"}
    assert kernels(tmp_path, torch_dtype="float16", options={"dtype": "auto"}) == {"float16", "triton"}
    assert kernels(tmp_path, torch_dtype=None) == {"bfloat16", "float16", "triton"}


def test_by_what_is_asked_for(tmp_path: Path) -> None:
    assert kernels(tmp_path, options={"quantization": "fp8"}) == {"bfloat16", "triton", "fp8-scaled"}
    assert kernels(tmp_path, options={"kv_cache_dtype": "fp8"}) == {"bfloat16", "triton", "fp8-scaled"}
    assert kernels(tmp_path, BLOCKS, {"kv_cache_dtype": "auto"}) == {"bfloat16", "triton", "fp8"}


def test_a_folder_without_a_model_gets_what_every_engine_needs(tmp_path: Path) -> None:
    found = {need.kernel for need in needed(read_model(str(tmp_path)), {})}
    assert found == {"bfloat16", "float16", "triton"}
