"""What others wrote down about vLLM's past, against the index: every disagreement has its reason here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from canserve.index.places import shipped
from canserve.index.shelf import contents

TABLES = {
    "architectures": "architectures",
    "tool_call_parsers": "tool_parsers",
    "reasoning_parsers": "reasoning_parsers",
    "config_shim_model_types": "config_types",
    "quantization_methods": "quantization",
}
EXPLAINED = {
    ("ChatGLMForConditionalGeneration", "0.7.3"): "left in 0.7.3, came back in 0.8.4",
    ("ChatGLMForConditionalGeneration", "0.8.3"): "left in 0.7.3, came back in 0.8.4",
    ("Llama4ForCausalLM", "0.8.4"): "left in 0.8.4, came back in 0.10.1",
    ("Llama4ForCausalLM", "0.10.0"): "left in 0.8.4, came back in 0.10.1",
    ("TransformersModel", "0.8.3"): "left in 0.8.3, came back in 0.10.1",
    ("TransformersModel", "0.8.4"): "left in 0.8.3, came back in 0.10.1",
    ("TransformersModel", "0.10.0"): "left in 0.8.3, came back in 0.10.1",
    ("LlamaForCausalLMEagle3", "0.10.1.1"): "its line is commented out there",
}
COMMENTED_OUT = "MLPSpeculatorPreTrainedModel"
"""Its line is a comment in every release from 0.10.0 on."""


@pytest.fixture(scope="module")
def claims(shared: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((shared / "cases" / "vllm_first_seen.json").read_text())
    return loaded


def listed(table: str) -> dict[str, frozenset[str]]:
    shelf = shipped("vllm")
    versions = [str(row["version"]) for row in shelf.releases]
    return dict(zip(versions, contents(shelf, table), strict=True))


@pytest.mark.parametrize("kind", TABLES)
def test_names_are_where_they_were_seen(claims: dict[str, Any], kind: str) -> None:
    by_version = listed(TABLES[kind])
    assert claims[kind]["names"]
    unexplained = []
    for name, seen in claims[kind]["names"].items():
        for version in claims[kind]["lists_found_in"]:
            here = Version(version)
            gone = seen.get("removed_after") and here > Version(seen["removed_after"])
            expected = here >= Version(seen["present"]) and not gone
            if seen["absent"] is None and here < Version(seen["present"]):
                continue  # not looked at there
            if (name in by_version[version]) != expected and (name, version) not in EXPLAINED:
                unexplained.append((name, version))
    assert [pair for pair in unexplained if pair[0] != COMMENTED_OUT] == []


def test_the_engines_own_word_on_dropped_names_is_not_exact(claims: dict[str, Any]) -> None:
    """The index is read from the registries; the list in the engine is kept by hand."""
    by_version = listed("architectures")
    last = {name: version for version, names in by_version.items() for name in names}
    stated = claims["previously_supported_last_version"]
    wrong = {name: (version, last.get(name)) for name, version in stated.items() if last.get(name) != version}
    assert wrong == {
        "MotifForCausalLM": ("0.10.2", "0.11.0"),
        "JAISLMHeadModel": ("0.22.0", "0.22.1"),
        "BaiChuanForCausalLM": ("0.23.0", "0.24.0"),
        "BaichuanForCausalLM": ("0.23.0", "0.24.0"),
        "Tarsier2ForConditionalGeneration": ("0.23.0", "0.24.0"),
        "TeleChatForCausalLM": ("0.25.0", "0.25.1"),
        "PersimmonForCausalLM": ("0.25.0", "0.25.1"),
        "FuyuForCausalLM": ("0.25.0", "0.25.1"),
    }


@pytest.mark.parametrize(
    ("engine", "name", "first"),
    [
        ("vllm", "Qwen3_5MoeForConditionalGeneration", "0.17.0"),
        ("vllm", "Qwen3NextForCausalLM", "0.10.2"),
        ("vllm", "DeepseekV3ForCausalLM", "0.6.6"),
        ("vllm", "GptOssForCausalLM", "0.10.1"),
        ("vllm", "Glm4MoeLiteForCausalLM", "0.15.0"),
        ("vllm", "MiniMaxM2ForCausalLM", "0.11.1"),
        ("sglang", "Qwen3_5MoeForConditionalGeneration", "0.5.9"),
        ("sglang", "DeepseekV3ForCausalLM", "0.4.1"),
        ("sglang", "KimiLinearForCausalLM", "0.5.4.post2"),
    ],
)
def test_first_releases(engine: str, name: str, first: str) -> None:
    from canserve.index import release_history

    assert release_history().releases_with(engine, name)[0] == first
