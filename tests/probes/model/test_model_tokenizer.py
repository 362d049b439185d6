"""Tokenizer, processor and chat template: every layout in which repositories ship them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from model_making import LFS_POINTER, folder, known, missing

from canserve.facts import Cause
from canserve.probes.model import read_model
from canserve.subjects.model import Model


def of(tmp_path: Path, files: dict[str, Any]) -> Model:
    return read_model(str(folder(tmp_path, {"config.json": {}, **files})))


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        ((), None),
        (("tokenizer.json", "tokenizer.model", "tekken.json"), "fast"),
        (("tokenizer.model",), "sentencepiece"),
        (("spiece.model",), "sentencepiece"),
        (("sentencepiece.bpe.model",), "sentencepiece"),
        (("tekken.json",), "mistral"),
        (("tokenizer.model.v3",), "mistral"),
        (("qwen.tiktoken", "tokenization_qwen.py"), "tiktoken"),
        (("tiktoken.model",), "tiktoken"),
        (("vocab.json", "merges.txt"), "bpe"),
        (("vocab.txt",), "wordpiece"),
    ],
)
def test_kinds(tmp_path: Path, names: tuple[str, ...], kind: str | None) -> None:
    tokenizer = known(of(tmp_path, dict.fromkeys(names, "x")).tokenizer)
    assert tokenizer.kind == kind
    assert tokenizer.files == tuple(sorted(names))


def test_class_and_code(tmp_path: Path) -> None:
    config = {
        "tokenizer_class": "KimiTokenizer",
        "auto_map": {"AutoTokenizer": ["tokenization_kimi.T", None]},
    }
    tokenizer = known(of(tmp_path, {"tokenizer_config.json": config}).tokenizer)
    assert tokenizer.class_name == "KimiTokenizer"
    assert tokenizer.auto_map == {"AutoTokenizer": "tokenization_kimi.T"}


@pytest.mark.parametrize("content", [b"[]", b"{", b'{"tokenizer_class": 5}', LFS_POINTER])
def test_a_broken_tokenizer_config_is_a_missing_tokenizer(tmp_path: Path, content: bytes) -> None:
    model = of(tmp_path, {"tokenizer_config.json": content, "tokenizer.json": "{}"})
    missing(model.tokenizer)
    assert known(model.architectures) == ()


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer.model", "tekken.json"])
def test_a_pointer_in_place_of_the_vocabulary_is_seen(tmp_path: Path, name: str) -> None:
    lost = missing(of(tmp_path, {name: LFS_POINTER}).tokenizer)
    assert lost.cause is Cause.UNAVAILABLE
    assert "git lfs pull" in str(lost.ask)


def test_no_processor_files_is_known(tmp_path: Path) -> None:
    assert known(of(tmp_path, {"tokenizer_config.json": {"processor_class": "X"}}).processor) is None


def test_processor_files_and_class(tmp_path: Path) -> None:
    files: dict[str, Any] = {
        "preprocessor_config.json": {"image_processor_type": "I", "auto_map": {"AutoImageProcessor": "i.I"}},
        "processor_config.json": {"processor_class": "P", "auto_map": {"AutoProcessor": "p.P"}},
        "video_preprocessor_config.json": {},
        "processing_p.py": "raise SystemExit",
    }
    processor = known(of(tmp_path, files).processor)
    assert processor.files == tuple(sorted(files))
    assert processor.class_name == "P"
    assert processor.auto_map == {"AutoProcessor": "p.P", "AutoImageProcessor": "i.I"}


def test_a_broken_processor_config_is_missing(tmp_path: Path) -> None:
    missing(of(tmp_path, {"preprocessor_config.json": "]"}).processor)


TEMPLATES: list[tuple[dict[str, Any], str | None, dict[str, str]]] = [
    ({}, None, {}),
    ({"tokenizer_config.json": {"chat_template": "A"}}, "A", {}),
    ({"tokenizer_config.json": {"chat_template": None}}, None, {}),
    ({"tokenizer_config.json": {"chat_template": [{"name": "default", "template": "A"},
                                                  {"name": "rag", "template": "B"}]}}, "A", {"rag": "B"}),
    ({"tokenizer_config.json": {"chat_template": {"tool_use": "A"}}}, None, {"tool_use": "A"}),
    ({"tokenizer_config.json": {"chat_template": "A"}, "chat_template.json": {"chat_template": "B"}}, "B",
     {}),
    ({"chat_template.json": {"chat_template": "B"}, "chat_template.jinja": "C"}, "C", {}),
    ({"chat_template.jinja": "{{ é }}", "additional_chat_templates/tools.jinja": "T"}, "{{ é }}",
     {"tools": "T"}),
]  # fmt: skip


@pytest.mark.parametrize(("files", "default", "named"), TEMPLATES)
def test_templates(tmp_path: Path, files: dict[str, Any], default: str | None, named: dict[str, str]) -> None:
    model = of(tmp_path, files)
    assert known(model.chat_template) == default
    assert known(model.named_templates) == named


@pytest.mark.parametrize(
    "files",
    [
        {"tokenizer_config.json": {"chat_template": 5}},
        {"tokenizer_config.json": {"chat_template": [{"name": "default"}]}},
        {"tokenizer_config.json": {"chat_template": ["x"]}},
        {"chat_template.json": "not json"},
        {"chat_template.jinja": b"\xff"},
        {"chat_template.jinja": b"x" * (2 << 20) + b"x"},
    ],
)
def test_broken_templates_are_missing_and_not_none(tmp_path: Path, files: dict[str, Any]) -> None:
    model = of(tmp_path, files)
    assert missing(model.chat_template).cause is Cause.UNREADABLE
    missing(model.named_templates)


def test_generation_config(tmp_path: Path) -> None:
    assert known(of(tmp_path / "a", {}).generation) is None
    assert known(of(tmp_path / "b", {"generation_config.json": {"top_k": 5}}).generation) == {"top_k": 5}
    missing(of(tmp_path / "c", {"generation_config.json": "[]"}).generation)
