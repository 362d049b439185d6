"""The JSON contract, name by name."""

from __future__ import annotations

import json
from typing import Any

import pytest
from reports import ARCH, HOSTILE, build, hostile_report, no_report, report, unknown_report, yes_report

from canserve.render.plain import plain
from canserve.render.structure import check_output, to_json
from canserve.render.subject_structure import build_output


def parsed(output: object) -> Any:
    return json.loads(to_json(output))


def test_check_output_has_the_promised_names() -> None:
    output = parsed(check_output(report(no_report(), yes_report())))
    assert output["version"] == 1
    assert output["model"]["architectures"] == [ARCH]
    assert output["verdict"] == "no"
    first = output["builds"][0]
    assert (first["build"], first["verdict"]) == ("vllm==0.14.0", "no")
    finding = next(f for f in first["findings"] if f["check"] == "architecture-registered")
    assert {"check", "about", "verdict", "because", "fix", "ask", "evidence"} <= finding.keys()
    assert finding["fix"].startswith("use vllm 0.17.0")
    assert finding["ask"] is None
    assert {"subject", "how", "saw", "whole"} <= finding["evidence"][0].keys()
    assert [look["whole"] for look in finding["evidence"]] == [True, False]
    assert output["cost"] == {"bytes": 123456, "requests": 12, "whole_downloads": 0}


def test_the_worst_build_decides() -> None:
    assert parsed(check_output(report(yes_report(), unknown_report())))["verdict"] == "unknown"
    assert parsed(check_output(report(yes_report(), yes_report())))["verdict"] == "yes"


def test_build_output_prefers_the_class_that_was_resolved() -> None:
    facts = parsed(build_output("vllm==0.14.0", build()))["facts"]
    assert facts["architectures"]["Qwen2ForCausalLM"]["module"] == "vllm.models.qwen2_impl"
    assert facts["architectures"]["Qwen2ForCausalLM"]["class"] == "Qwen2ForCausalLM"
    assert facts["architectures"]["Qwen2ForCausalLM"]["interfaces"] == {"supports_pp": True, "x": None}


def test_absent_and_unreadable_classes_differ() -> None:
    architectures = parsed(build_output("vllm==0.14.0", build()))["facts"]["architectures"]
    assert architectures["GoneForCausalLM"]["interfaces"] is None
    assert architectures["OddForCausalLM"]["interfaces"]["missing"] == "unreadable"
    assert architectures["OddForCausalLM"]["module"] == "vllm.models.odd"


def test_build_facts_have_the_promised_names() -> None:
    output = parsed(build_output("vllm==0.14.0", build()))
    facts = output["facts"]
    assert (output["version"], output["build"]) == (1, "vllm==0.14.0")
    assert facts["requires"] == ["transformers<5,>=4.56.0", "torch==2.9.1"]
    assert facts["quantization"]["fp8"]["min_capability"] == 80
    assert set(facts["model_types"]) == {"qwen3_next", "deepseek_v32"}
    assert facts["flags"] == ["--port", "-p"]
    assert facts["kv_cache_dtypes"] == ["auto", "fp8"]
    assert facts["reasoning_parsers"] == ["qwen3"]
    assert facts["tool_parsers"]["missing"] == "unreadable"
    assert facts["dropped"]["missing"] == "unreached"
    assert output["evidence"]["architectures"][0]["how"].endswith("registry.py:9")


def test_output_is_ascii_whatever_a_name_holds() -> None:
    text = to_json(check_output(report(hostile_report())))
    assert text.isascii()
    assert "\x1b" not in text
    assert json.loads(text)["builds"][0]["build"] == HOSTILE


def test_numbers_that_json_lacks_become_text() -> None:
    assert plain([float("nan"), float("inf"), 1.5]) == ["nan", "inf", 1.5]


def test_a_type_without_a_place_is_refused() -> None:
    with pytest.raises(TypeError, match="bytes has no place"):
        plain(b"raw")
