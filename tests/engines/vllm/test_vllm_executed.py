"""What two really imported releases yielded, against what is read of them without importing anything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from canserve.facts import Known
from canserve.probes.build import BuildOptions, read_build
from canserve.subjects.build import Build, ModelClass, Want

pytestmark = [pytest.mark.slow, pytest.mark.network]
VERSIONS = ("0.9.2", "0.14.1")
NOT_FIELDS = {"architecture", "__module__", "__name__"}


@pytest.fixture(scope="module", params=VERSIONS)
def pair(request: pytest.FixtureRequest, shared: Path) -> tuple[Build, dict[str, Any]]:
    executed = json.loads(
        (shared / "cases" / "executed_registries" / f"vllm-{request.param}.json").read_text()
    )
    build = read_build(f"vllm=={request.param}", Want(architectures=None), BuildOptions()).build
    assert isinstance(build, Build)
    return build, executed


def test_the_same_architectures(pair: tuple[Build, dict[str, Any]]) -> None:
    build, executed = pair
    assert isinstance(build.registry, Known)
    assert set(build.registry.value) == set(executed["architectures"])


def test_the_same_classes_and_interfaces_in_every_row(pair: tuple[Build, dict[str, Any]]) -> None:
    build, executed = pair
    different: list[tuple[object, ...]] = []
    for name, row in executed["interfaces"].items():
        fact = build.classes[name]
        assert isinstance(fact, Known), name
        found = fact.value
        assert isinstance(found, ModelClass), name
        if (found.module, found.name) != (row["__module__"], row["__name__"]):
            different.append((name, found.module, found.name))
        different += [
            (name, key, found.interfaces.get(key), value)
            for key, value in row.items()
            if key not in NOT_FIELDS and found.interfaces.get(key) != value
        ]
    assert different == []
