"""A release that is read for the index: what may be there tomorrow is no row, what cannot be understood is one."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from packaging.version import Version

from canserve.engines import engine_named
from canserve.facts import Missing
from canserve.index.engine_rows import read_engine
from canserve.index.rows import Row, release_of
from canserve.probes.build import BuildOptions
from canserve.trees.cache import Cache
from canserve.trees.index.pages import File

NAME = "vllm-0.99.0-py3-none-any.whl"
REGISTRY = "vllm/model_executor/models/registry.py"
FILES = {
    "vllm/__init__.py": "",
    REGISTRY: '_VLLM_MODELS = {"TinyForCausalLM": ("tiny", "TinyForCausalLM")}\n',
    "vllm/model_executor/models/tiny.py": "class TinyForCausalLM: ...\n",
    "vllm-0.99.0.dist-info/METADATA": "Name: vllm\nVersion: 0.99.0\nRequires-Dist: transformers>=4.50\n",
}


def read(folder: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str] | None) -> Row | Missing:
    """The release from an index in a folder; None: the index lists it, but the file is gone."""
    project = folder / "simple" / "vllm"
    project.mkdir(parents=True)
    page = {
        "meta": {"api-version": "1.1"},
        "name": "vllm",
        "files": [{"filename": NAME, "url": NAME, "hashes": {}}],
    }
    (project / "index.json").write_text(json.dumps(page))
    if files is not None:
        with zipfile.ZipFile(project / NAME, "w") as archive:
            for path, text in files.items():
                archive.writestr(path, text)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", (folder / "simple").as_uri())
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    engine = engine_named("vllm")
    assert engine is not None
    file = File(NAME, "", Version("0.99.0"), (0, ""), ("py3",), ("any",), "ab" * 32)
    return read_engine(engine, release_of(file, ["any"]), BuildOptions(cache=Cache(folder / "cache")))


def test_a_release_is_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = read(tmp_path, monkeypatch, FILES)
    assert isinstance(row, Row)
    assert row.sha256 == "ab" * 8
    assert row.names["architectures"] == ("TinyForCausalLM",)
    assert row.names["requires"] == ("transformers>=4.50",)
    assert row.said["transformers"] == ">=4.50"


def test_a_file_that_is_gone_is_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(read(tmp_path, monkeypatch, None), Missing)


def test_a_stub_is_a_row_that_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = read(
        tmp_path,
        monkeypatch,
        {"nothing/__init__.py": "", **{k: v for k, v in FILES.items() if "info" in k}},
    )
    assert isinstance(row, Row)
    assert row.names == {}
    assert row.said["unreadable"]


def test_a_registry_of_unknown_form_is_a_row_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = read(tmp_path, monkeypatch, {**FILES, REGISTRY: "_VLLM_MODELS = build()\n"})
    assert isinstance(row, Row)
    assert row.names == {}
    assert "unknown form" in row.said["unreadable"]
