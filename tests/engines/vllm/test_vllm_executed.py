"""What two really imported releases yielded, against what is read of them without importing anything."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from canserve.facts import Known
from canserve.index import transformers_table
from canserve.probes.build import BuildOptions, read_build
from canserve.subjects.build import Build, ModelClass, Want

pytestmark = [pytest.mark.slow, pytest.mark.network]
RUN_WITH = {"0.9.2": "4.53.2", "0.14.1": "4.57.6"}
"""The transformers that was installed where the release was imported."""
OF_THAT_MACHINE = {
    "ArcticForCausalLM": "it had no Triton driver, without which fused_moe defines no fused_experts",
}
"""Imports that failed for a reason outside the release, transformers and other packages."""


class Pair(NamedTuple):
    version: str
    build: Build
    executed: dict[str, Any]

    def read(self, architecture: str) -> ModelClass:
        fact = self.build.classes[architecture]
        assert isinstance(fact, Known), architecture
        assert fact.value is not None, architecture
        return fact.value


@pytest.fixture(scope="module", params=RUN_WITH)
def pair(request: pytest.FixtureRequest, shared: Path) -> Pair:
    path = shared / "cases" / "executed_registries" / f"vllm-{request.param}.json"
    build = read_build(f"vllm=={request.param}", Want(architectures=None), BuildOptions()).build
    assert isinstance(build, Build)
    return Pair(request.param, build, json.loads(path.read_text()))


def test_the_same_architectures(pair: Pair) -> None:
    assert isinstance(pair.build.registry, Known)
    assert sorted(pair.build.registry.value) == sorted(pair.executed["architectures"])


def test_the_same_classes_and_interfaces_in_every_row(pair: Pair) -> None:
    assert len(pair.executed["interfaces"]) > 160
    different = {}
    for name, row in pair.executed["interfaces"].items():
        found = pair.read(name)
        read = {**found.interfaces, "__module__": found.module, "__name__": found.name}
        if read != row:
            different[name] = {key: (row.get(key), read.get(key)) for key in {*row, *read}}
    assert different == {}


def test_what_failed_to_import_is_foreseen(pair: Pair) -> None:
    table = transformers_table()
    assert isinstance(table, Known)
    for name, message in pair.executed["import_failures"].items():
        if name in OF_THAT_MACHINE:
            continue
        found, asked = pair.read(name), set(re.findall(r"'([\w.]+)'", message))
        lacking = [
            need
            for need in found.imports
            if table.value.has_name(RUN_WITH[pair.version], need.module, need.name) is False
        ]
        foreseen = {need.module for need in lacking} | {need.name for need in lacking}
        assert asked & (foreseen | {need.module for need in found.outside}), (name, message)


def test_what_was_imported_is_not_called_impossible(pair: Pair) -> None:
    table = transformers_table()
    assert isinstance(table, Known)
    for name in pair.executed["interfaces"]:
        found = pair.read(name)
        assert found.broken == (), name
        for need in found.imports:
            has = table.value.has_name(RUN_WITH[pair.version], need.module, need.name)
            assert has is not False, (name, need)
