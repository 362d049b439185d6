"""Sources made to mislead or to stop the reader: every fact ends known or missing, soon, and nothing is run."""

from __future__ import annotations

import time
from dataclasses import fields

import pytest
from llama_trees import TREE, read

from canserve.engines.cpp.text import MAX_SOURCE
from canserve.facts import Known, Missing

BOMBS = {
    "huge": b" " * (MAX_SOURCE + 2),
    "unclosed comment": b"/* " * 200_000,
    "unclosed string": b'"' * 200_001,
    "deep": b"LLM_ARCH_NAMES = " + b"{" * 400_000,
    "many": b"LLM_ARCH_NAMES = {" + b'{A,"a"},' * 60_000 + b"};",
    "calls": b"llama_model_mapping(" * 30_000,
    "options": b"add_opt(x(" * 30_000,
    "binary": bytes(range(256)) * 400,
    "empty": b"",
    "python bomb": b"(" * 100_000,
}


@pytest.mark.parametrize("name", BOMBS)
def test_every_file_replaced_by_a_bomb(name: str) -> None:
    begun = time.process_time()
    build = read(dict.fromkeys(TREE, BOMBS[name]))
    assert time.process_time() - begun < 60
    for one in fields(build):
        value = getattr(build, one.name)
        if one.name not in {"identity", "transformers", "classes", "stack"}:
            assert isinstance(value, Known | Missing), one.name
    found = build.gguf_architectures
    assert isinstance(found, Missing) or not found.value


@pytest.mark.parametrize("file", [name for name in TREE if name.endswith((".cpp", ".h", ".py"))])
def test_one_bad_file_spoils_only_what_it_says(file: str) -> None:
    build = read(TREE | {file: "/* never closed" if not file.endswith(".py") else "def ("})
    unread = [one.name for one in fields(build) if isinstance(getattr(build, one.name), Missing)]
    whole = [one.name for one in fields(build) if isinstance(getattr(build, one.name), Known)]
    assert len(whole) >= 10, unread


def test_nothing_of_a_build_is_imported(tmp_path: object) -> None:
    trap = "raise SystemExit('was run')\n"
    build = read(TREE | {"convert_hf_to_gguf.py": trap, "conversion/__init__.py": trap})
    assert isinstance(build.converter, Missing)
