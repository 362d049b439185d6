"""Flags, parsers, speculative decoding and stages on releases of the package index, where the answer is known."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from canserve.api import Options, check
from canserve.verdict import No, word

pytestmark = [pytest.mark.slow, pytest.mark.network]

LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}
QWEN = {
    "architectures": ["Qwen3_5MoeForConditionalGeneration"],
    "model_type": "qwen3_5_moe",
    "text_config": {"model_type": "qwen3_5_moe_text", "mtp_num_hidden_layers": 1},
}
MTP = ["--speculative-config", '{"method": "mtp", "num_speculative_tokens": 1}']
FLAGS, PARSERS, DRAFT, STAGES = (
    "flags-accepted", "parsers-known", "speculative-class-present", "pipeline-supported",
)  # fmt: skip


def answer(tmp_path: Path, config: Mapping[str, object], build: str, flags: list[str], about: str) -> str:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config))
    (report,) = check(str(file), [build], options=Options(flags=tuple(flags))).builds
    found = next(one for one in report.findings if one.check == about)
    assert found.evidence
    if isinstance(found.verdict, No):
        return f"no: {found.verdict.fix}"
    return word(found.verdict)


@pytest.mark.parametrize(
    ("build", "flags", "about", "expected"),
    [
        # A parser that the documentation of the main branch already had.
        ("vllm==0.6.2", ["--tool-call-parser", "llama3_json"], PARSERS, "no: use one it has, or vllm>=0.6.3"),
        ("vllm==0.6.3", ["--tool-call-parser", "llama3_json"], PARSERS, "yes"),
        ("sglang==0.4.6", ["--tool-call-parser", "llama4"], PARSERS, "no: use llama3"),
        # Several machines without Ray.
        ("vllm==0.11.0", ["--nnodes", "2"], FLAGS, "no: use vllm>=0.11.1, the first release with it"),
        ("vllm==0.11.1", ["--nnodes", "2", "--node-rank", "1"], FLAGS, "yes"),
        # A flag that left.
        ("vllm==0.17.1", ["--swap-space", "4"], FLAGS, "yes"),
        ("vllm==0.33.0", ["--swap-space", "4"], FLAGS, "no: "),
        # Names as each parser reads them.
        ("vllm==0.10.2", ["--kv_cache_dtype", "fp8", "-tp", "2", "--no-enable-prefix-caching"], FLAGS, "yes"),
        ("vllm==0.10.2", ["--kv-cache-dtype", "nvfp4"], FLAGS, "no: "),
        ("vllm==0.33.0", ["--disable-prefix-caching"], FLAGS, "yes"),
        ("vllm==0.17.1", ["--disable-prefix-caching"], FLAGS, "no: "),
        ("sglang==0.5.9", ["--kv_cache_dtype", "fp8_e4m3"], FLAGS, "no: write it as --kv-cache-dtype"),
        ("sglang==0.5.9", ["--tp", "2", "--kv-cache-dtype", "fp8_e4m3"], FLAGS, "yes"),
    ],
)
def test_flags_and_parsers(tmp_path: Path, build: str, flags: list[str], about: str, expected: str) -> None:
    assert answer(tmp_path, LLAMA, build, flags, about).startswith(expected)


@pytest.mark.parametrize(
    ("build", "flags", "expected"),
    [
        ("vllm==0.14.0", MTP, "no: "),
        ("vllm==0.17.1", MTP, "yes"),
        ("sglang==0.5.9", ["--speculative-algorithm", "NEXTN"], "yes"),
        ("sglang==0.5.9", ["--speculative-algorithm", "EAGLE"], "yes"),
        ("sglang==0.5.8", ["--speculative-algorithm", "NEXTN"], "no: "),
    ],
)
def test_the_founding_models_own_prediction_layers(
    tmp_path: Path, build: str, flags: list[str], expected: str
) -> None:
    assert answer(tmp_path, QWEN, build, flags, DRAFT).startswith(expected)


@pytest.mark.parametrize(
    ("build", "config", "expected"),
    [
        ("vllm==0.17.1", LLAMA, "yes"),
        ("vllm==0.17.1", QWEN, "yes"),
        ("vllm==0.17.1", {"architectures": ["GritLM"], "model_type": "mistral"}, "yes"),
        (
            "vllm==0.10.2",
            {"architectures": ["WhisperForConditionalGeneration"], "model_type": "whisper"},
            "no: ",
        ),
    ],
)
def test_pipeline_stages(tmp_path: Path, build: str, config: Mapping[str, object], expected: str) -> None:
    assert answer(tmp_path, config, build, ["-pp", "2"], STAGES).startswith(expected)
