"""Recorded failures and starts: right, unknown, hardly ever wrong; no healthy start is called a stall."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from deployment import MATCHER, diagnosed, reading

from canserve.api.diagnosing import judged
from canserve.probes.logs.matching import Matcher
from canserve.probes.logs.reading import read_log
from canserve.rules.failures import KINDS


def recorded(shared: Path) -> list[dict[str, str]]:
    with (shared / "cases" / "failures.jsonl").open() as lines:
        return [json.loads(line) for line in lines]


def test_the_kinds_are_those_of_the_cases(shared: Path) -> None:
    assert {case["kind_name"] for case in recorded(shared)} == set(KINDS)


def test_log_signatures_lead_to_their_kind(shared: Path) -> None:
    logs = [case for case in recorded(shared) if case["signature_form"] == "log"]
    told = {case["id"]: diagnosed(log=case["signature"]).kind for case in logs}
    results = Counter(
        "unknown" if told[case["id"]] is None else told[case["id"]] == case["kind_name"] for case in logs
    )
    assert results[True] >= 0.9 * len(logs)
    assert results[False] <= 0.02 * len(logs)


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_nobody_has_seen_is_hardly_ever_called_another(shared: Path, kind: str) -> None:
    import io

    matcher = Matcher(MATCHER.knowledge.without(kind))
    cases = [case for case in recorded(shared) if case["kind_name"] == kind]
    found = [
        judged([read_log("log", io.BytesIO(case["signature"].encode()), matcher)], matcher.knowledge)
        for case in cases
    ]
    assert sum(each.kind is not None for each in found) <= 1


def starts(shared: Path) -> dict[str, dict[str, bytes]]:
    found: dict[str, dict[str, bytes]] = {}
    for path in sorted((shared / "cases" / "stalls").iterdir()):
        found.setdefault(path.name.split(".")[0], {})[path.name] = path.read_bytes()
    return found


def test_every_start_that_failed_is_named(shared: Path) -> None:
    for name, texts in starts(shared).items():
        found = diagnosed(**texts)
        if name.startswith("fail-"):
            assert found.state in ("failed", "stalled"), name
            assert found.kind == "multi-node-and-collectives", name
        elif not name.startswith("ray-stock"):
            assert (found.state, found.kind) == ("serving", None), name


@pytest.mark.slow
def test_no_cut_of_a_start_is_called_what_it_is_not(shared: Path) -> None:
    for name, texts in starts(shared).items():
        fails = name.startswith("fail-")
        for file in (each for each in texts if each.endswith(".log") and "raystatus" not in each):
            data = texts[file]
            lines = data.splitlines(keepends=True)
            others = [reading(text, other) for other, text in texts.items() if other != file]
            for count in range(len(lines) + 1):
                cut = reading(b"".join(lines[:count]), file)
                for beside in ([], others):
                    found = judged([cut, *beside], MATCHER.knowledge)
                    kinds = {None, "multi-node-and-collectives"} if fails else {None}
                    assert found.kind in kinds, (name, file, count)
                    if not fails and not name.startswith("ray-stock"):
                        assert found.state not in ("failed", "stalled"), (name, file, count)
