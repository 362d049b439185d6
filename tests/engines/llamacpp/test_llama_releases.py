"""Real releases of every form, from the package index: what was counted in them once stays so."""

from __future__ import annotations

from functools import lru_cache
from typing import TypeVar

import pytest

from canserve.facts import Fact, Known, Missing
from canserve.probes.build import read_build
from canserve.probes.model.gguf import TYPES
from canserve.subjects.build import Build, Want

pytestmark = [pytest.mark.network, pytest.mark.slow]

COUNTS = {
    # release: architectures, classes converted, with a projector, tensor types, flags
    "0.1.66": (0, 0, 0, 17, 20),
    "0.1.79": (2, 3, 0, 17, 25),
    "0.2.13": (8, 7, 0, 17, 36),
    "0.2.30": (13, 17, 0, 19, 40),
    "0.2.62": (28, 37, 0, 28, 57),
    "0.2.80": (35, 47, 0, 29, 168),
    "0.3.1": (48, 68, 0, 34, 121),
    "0.3.11": (70, 114, 13, 31, 162),
    "0.3.16": (87, 137, 14, 32, 176),
    "0.3.36": (151, 267, 66, 35, 255),
}


@lru_cache(maxsize=2)
def release(version: str) -> Build:
    found = read_build(f"llama-cpp-python=={version}", Want.everything()).build
    assert isinstance(found, Build), found
    return found


T = TypeVar("T")


def value(fact: Fact[T]) -> T:
    assert isinstance(fact, Known), fact
    return fact.value


@pytest.mark.parametrize("version", COUNTS)
def test_counts(version: str) -> None:
    build = release(version)
    architectures, types, flags = build.gguf_architectures, build.gguf_types, build.flags
    assert isinstance(architectures, Known)
    assert isinstance(types, Known)
    assert isinstance(flags, Known)
    converter = build.converter
    assert isinstance(converter, Known)
    found = converter.value
    classes = (len(found.classes), len(found.projectors)) if found else (0, 0)
    assert (len(architectures.value or {}), *classes, len(types.value), len(flags.value)) == COUNTS[version]


def test_names_that_nothing_builds_are_not_served() -> None:
    newest, old = release("0.3.36").gguf_architectures, release("0.2.80").gguf_architectures
    assert isinstance(newest, Known)
    assert isinstance(old, Known)
    assert newest.value is not None
    assert old.value is not None
    assert not {"gptj", "clip", "(unknown)"} & newest.value.keys()
    assert {"qwen35moe", "gemma3", "deepseek2", "gpt-oss"} <= newest.value.keys()
    assert "t5" not in old.value


def test_this_program_names_the_tensor_types_of_the_newest_release() -> None:
    types = release("0.3.36").gguf_types
    assert isinstance(types, Known)
    assert {name: number for number, name in TYPES.items()} == types.value


def test_a_class_that_its_table_of_modules_leaves_out_is_not_converted() -> None:
    """284 names stand in decorators of this release; one of them no table leads to."""
    converter = release("0.3.36").converter
    assert isinstance(converter, Known)
    assert converter.value is not None
    names = converter.value.classes.keys() | converter.value.projectors.keys()
    assert len(names) == 283
    assert "MiniMaxM3VLForConditionalGeneration" not in names
    assert converter.value.classes["Qwen3_5MoeForConditionalGeneration"].gguf == "qwen35moe"
    assert {"fp8", "gptq", "compressed-tensors"} <= converter.value.quantizations.keys()


def test_the_newest_release_against_its_own_documentation() -> None:
    """What the README of its server lists, among which was nothing that the reader did not find."""
    flags = release("0.3.36").flags
    assert isinstance(flags, Known)
    names = {name for flag in flags.value.values() for name in (flag.name, *flag.aliases)}
    assert len(names) == 412
    assert {"-m", "--mmproj", "-ctk", "--cache-type-v", "--jinja", "--spec-type", "--no-jinja"} <= names


def test_a_release_that_was_published_without_its_submodule() -> None:
    for fact in (release("0.1.28").gguf_architectures, release("0.1.28").load_formats):
        assert isinstance(fact, Missing)
        assert "not in it" in fact.why


def test_the_engine_and_its_project_are_one_target() -> None:
    found = read_build("llama.cpp==0.3.36", Want()).build
    assert isinstance(found, Build)
    assert (found.identity.engine, value(found.identity.version)) == ("llama.cpp", "0.3.36")
