"""Real models against real releases: what LMDeploy's users saw, and what its own pages say of a release.

Rows with a number of an issue are what the server did there, as its thread tells.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from canserve.api import Options, check
from canserve.verdict import No, Unknown, Verdict, Yes, word

pytestmark = [pytest.mark.network, pytest.mark.slow]


def judged(model: Path, release: str, *flags: str) -> tuple[str, dict[str, Verdict]]:
    (one,) = check(str(model), [f"lmdeploy=={release}"], options=Options(flags=flags)).builds
    return word(one.verdict), {finding.check: finding.verdict for finding in one.findings}


@pytest.mark.parametrize(
    "model, release, verdict, decided_by",
    [
        ("Qwen__Qwen3.5-122B-A10B", "0.12.2", "yes", ""),
        ("Qwen__Qwen3.5-122B-A10B", "0.11.0", "no", "architecture-registered"),
        ("deepseek-ai__DeepSeek-V4-Flash", "0.18.0", "yes", ""),
        ("deepseek-ai__DeepSeek-V4-Flash", "0.13.0", "no", "architecture-registered"),
        ("openai__gpt-oss-120b", "0.18.0", "yes", ""),
        ("moonshotai__Kimi-K2.5", "0.18.0", "unknown", "quantization-registered"),
        ("Qwen__Qwen3-32B-FP8-Static-PerTensor", "0.18.0", "no", "quantization-registered"),
        ("nvidia__Qwen3.5-397B-A17B-NVFP4", "0.18.0", "no", "quantization-registered"),
        ("nvidia__NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "0.18.0", "no", "architecture-registered"),
    ],
)
def test_models_of_this_year(shared: Path, model: str, release: str, verdict: str, decided_by: str) -> None:
    answer, findings = judged(shared / "models" / model, release)
    assert answer == verdict
    assert verdict == "yes" or word(findings[decided_by]) == verdict


def folder(root: Path, architecture: str, model_type: str, **config: Any) -> Path:
    said = {"architectures": [architecture], "model_type": model_type, **config}
    (root / "config.json").write_text(json.dumps(said))
    return root


def quantized(**config: Any) -> dict[str, Any]:
    return {"quantization_config": {"bits": 4, "group_size": 128, **config}}


GPTQ = {"quant_method": "gptq", "desc_act": False, "sym": True}
AWQ = {"quant_method": "awq", "version": "gemm", "zero_point": True}
QWEN = ("Qwen2ForCausalLM", "qwen2")


@pytest.mark.parametrize(
    "release, config, needs",
    [
        ("0.6.5", {**AWQ}, ()),
        ("0.6.5", {**GPTQ}, ()),
        ("0.6.5", {**GPTQ, "sym": False}, None),  # 2694
        ("0.6.5", {**GPTQ, "group_size": 32}, None),  # 2379
        ("0.6.5", {**AWQ, "group_size": 64}, ("--backend pytorch",)),
        ("0.6.5", {**AWQ, "version": "gemv"}, None),
    ],
)
def test_quantized_checkpoints(
    tmp_path: Path, release: str, config: dict[str, Any], needs: tuple[str, ...] | None
) -> None:
    _, findings = judged(folder(tmp_path, *QWEN, **quantized(**config)), release)
    verdict = findings["quantization-registered"]
    if needs is None:
        assert isinstance(verdict, No)
    else:
        assert isinstance(verdict, Yes)
        assert verdict.needs == needs


@pytest.mark.parametrize(
    "release, architecture, model_type, flags, served",
    [
        ("0.9.0", "Glm4vForConditionalGeneration", "glm4v", (), False),  # 3705
        ("0.7.1", "Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl", (), False),  # 3214
        ("0.7.3", "Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl", (), True),
        ("0.6.5", "LlavaLlamaForCausalLM", "llava_llama", (), True),
        ("0.6.5", "LlavaLlamaForCausalLM", "llava_llama", ("--backend", "turbomind"), True),
        ("0.6.5", "LlavaLlamaForCausalLM", "llava_llama", ("--backend", "pytorch"), False),  # 2939
    ],
)
def test_architectures_that_users_asked_for(
    tmp_path: Path, release: str, architecture: str, model_type: str, flags: tuple[str, ...], served: bool
) -> None:
    _, findings = judged(folder(tmp_path, architecture, model_type), release, *flags)
    assert isinstance(findings["architecture-registered"], Yes if served else No)


def test_a_type_that_nobody_knows_is_not_refused(tmp_path: Path) -> None:
    """3292: deepseek-vl2 ran, with transformers' plain config."""
    model = folder(tmp_path, "DeepseekVLV2ForCausalLM", "deepseek_vl_v2")
    answer, findings = judged(model, "0.7.3")
    assert isinstance(findings["config-parsable"], Unknown)
    assert answer == "unknown"


@pytest.mark.parametrize(
    "release, policy, answer, needs",
    [
        ("0.18.0", "8", Yes, ()),
        ("0.18.0", "fp8", Yes, ("--backend pytorch",)),
        ("0.12.2", "fp8", No, None),
        ("0.12.2", "8", Yes, ()),
    ],
)
def test_types_of_the_cache(
    tmp_path: Path, release: str, policy: str, answer: type[Verdict], needs: tuple[str, ...] | None
) -> None:
    _, findings = judged(folder(tmp_path, *QWEN), release, "--quant-policy", policy)
    verdict = findings["kv-cache-dtype-supported"]
    assert isinstance(verdict, answer)
    assert not isinstance(verdict, Yes) or verdict.needs == needs
