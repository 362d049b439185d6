"""Quantization and machine checks on releases read from the package index, where the answer is known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from canserve.api import check
from canserve.verdict import word

pytestmark = [pytest.mark.slow, pytest.mark.network]

LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}
MIXTURE = {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "num_experts": 128}
BLOCKS = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
FP4 = {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16, "symmetric": True}
NVFP4 = {
    "quant_method": "compressed-tensors",
    "format": "nvfp4-pack-quantized",
    "config_groups": {"group_0": {"targets": ["Linear"], "weights": FP4, "input_activations": FP4}},
}
BITS = {"quant_method": "bitsandbytes", "load_in_4bit": True}
REGISTERED, SCHEME, CAPABILITY = (
    "quantization-registered", "quantization-scheme-known", "quantization-capability-met",
)  # fmt: skip


def verdicts(tmp_path: Path, config: dict[str, Any], build: str, on: str | None = None) -> dict[str, str]:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config))
    (report,) = check(str(file), [build], on=on).builds
    return {found.check: word(found.verdict) for found in report.findings}


@pytest.mark.parametrize(
    ("quantization", "build", "about", "expected"),
    [
        (NVFP4, "vllm==0.9.0", SCHEME, "no"),
        (NVFP4, "vllm==0.9.1", SCHEME, "yes"),
        (NVFP4, "vllm==0.33.0", SCHEME, "yes"),
        (NVFP4, "sglang==0.5.6", SCHEME, "no"),
        (NVFP4, "sglang==0.5.7", SCHEME, "yes"),
        (BLOCKS, "vllm==0.6.5", SCHEME, "no"),
        (BLOCKS, "vllm==0.6.6", SCHEME, "yes"),
        (BLOCKS, "sglang==0.5.9", SCHEME, "yes"),
        (BITS, "vllm==0.27.1", REGISTERED, "yes"),
        (BITS, "vllm==0.28.0", REGISTERED, "no"),
    ],
)
def test_what_releases_load(
    tmp_path: Path, quantization: dict[str, Any], build: str, about: str, expected: str
) -> None:
    assert verdicts(tmp_path, LLAMA | {"quantization_config": quantization}, build)[about] == expected


@pytest.mark.parametrize(
    ("build", "on", "expected"),
    [
        ("vllm==0.8.5", "profile:a100", "no"),
        ("vllm==0.10.0", "profile:a100", "yes"),
        ("vllm==0.10.0", "profile:h200", "yes"),
        ("vllm==0.12.0", "profile:mi300x", "yes"),
        ("sglang==0.4.6.post1", "profile:a10g", "no"),
        ("sglang==0.5.9", "profile:a100", "no"),
        ("sglang==0.5.9", "profile:h200", "yes"),
    ],
)
def test_fp8_mixtures_on_gpus(tmp_path: Path, build: str, on: str, expected: str) -> None:
    assert verdicts(tmp_path, MIXTURE | {"quantization_config": BLOCKS}, build, on)[CAPABILITY] == expected


def test_a_driver_stated_in_a_cluster_file(tmp_path: Path) -> None:
    cluster = tmp_path / "c.toml"
    cluster.write_text('[nodes.a]\nprofile = "h200"\ndriver = "570.124.06"\n')
    old = verdicts(tmp_path, LLAMA, "vllm==0.14.0", str(cluster))
    new = verdicts(tmp_path, LLAMA, "vllm==0.20.0", str(cluster))
    assert (old["driver-new-enough"], new["driver-new-enough"]) == ("yes", "no")
    assert old["cpu-arch-matches"] == "yes"
