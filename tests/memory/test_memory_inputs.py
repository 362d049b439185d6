"""Options as text or values, devices of profiles, and the tables of memory rules."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from packaging.version import Version

from canserve.facts import Known, Missing
from canserve.memory.device import devices, one_device
from canserve.memory.graphs import capture_sizes
from canserve.memory.options import BadOption, Options
from canserve.memory.quantity import GIB
from canserve.rules.machines import names, profile, unstated
from canserve.rules.memory import every, rules


@pytest.mark.parametrize(
    ("value", "number"),
    [(5, 5), ("5", 5), ("32k", 32000), ("32K", 32768), ("1.5k", 1500), (8.0, 8), ("", None)],
)
def test_whole_numbers(value: object, number: int | None) -> None:
    assert Options({"n": value}).number("n") == number


@pytest.mark.parametrize("value", [0, -1, "x", True, "1e99999", "nan", "1.5", [1], "9" * 50])
def test_what_is_no_whole_number(value: object) -> None:
    with pytest.raises(BadOption):
        Options({"n": value}).number("n")


@pytest.mark.parametrize("value", [0, 1.01, "x", True, "nan"])
def test_what_is_no_share(value: object) -> None:
    with pytest.raises(BadOption):
        Options({"n": value}).fraction("n", 0.9)


def test_truth_values_and_tables() -> None:
    assert Options({"n": "1.5"}).ratio("n", 0.9) == 1.5 and Options({}).ratio("n", 0.9) == 0.9
    assert Options({"n": "TRUE"}).flag("n")
    assert not Options({"n": "off"}).flag("n", True)
    assert Options({"n": '{"a": 1}'}).table("n") == {"a": 1}
    with pytest.raises(BadOption):
        Options({"n": "maybe"}).flag("n")
    with pytest.raises(BadOption):
        Options({"n": "maybe"}).table("n")


def test_every_profile_with_memory_has_devices_below_its_nominal_figure() -> None:
    for name in names():
        machine = profile(name)
        assert machine is not None
        found = one_device(machine)
        if isinstance(found, Missing):
            assert isinstance(machine.memory, Missing)
            continue
        assert found.total_low <= found.total <= found.total_high
        if isinstance(machine.memory, Known):
            assert found.total <= machine.memory.value.count * GIB / 10**9


def test_devices_are_as_many_as_the_machine_has() -> None:
    machine = profile("h100")
    assert machine is not None
    found = devices(machine)
    assert isinstance(found, Known)
    assert len(found.value) == 8
    assert found.value[0].total == round(79.19 * GIB)
    blind = replace(machine, memory=unstated("x", "memory"), visible_memory=unstated("x", "visible_memory"))
    assert isinstance(devices(blind), Missing)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_rules_are_in_order_and_say_where_they_stand(engine: str) -> None:
    for fact, rows in every(engine).items():
        assert [Version(row.since) for row in rows] == sorted({Version(row.since) for row in rows}), fact
        assert all(row.files and row.form for row in rows[1:]), fact
        assert [row.newest for row in rows] == [False] * (len(rows) - 1) + [True]


@pytest.mark.parametrize(
    ("version", "value"),
    [("0.19.9", 0.9), ("0.20.0rc1", 0.92), ("0.20.0.dev1", 0.92), ("0.20.1+cu130", 0.92), ("0.1.0", 0.9)],
)
def test_a_development_build_follows_its_base_version(version: str, value: float) -> None:
    found = rules("vllm", version)
    assert isinstance(found, Known)
    assert found.value.value("utilization") == value


@pytest.mark.parametrize("version", ["", "main", "0.1.dev1+g0", "0.0.0"])
def test_versions_without_rules(version: str) -> None:
    assert isinstance(rules("vllm", version), Missing)


@pytest.mark.parametrize(
    ("sequences", "drafted", "count"), [(1024, 0, 51), (256, 0, 51), (4, 0, 4), (1, 0, 2), (20, 3, 23)]
)
def test_captured_sizes(sequences: int, drafted: int, count: int) -> None:
    """As logs list them: 51 sizes up to 512, 4 up to 8, 23 up to 160."""
    assert capture_sizes(sequences, drafted) == count


def test_rules_of_an_engine_name_their_evidence() -> None:
    found = rules("vllm", "0.25.1")
    assert isinstance(found, Known)
    look: Any = found.value.evidence("utilization")
    assert "0.20.0" in look.saw
