"""Layouts of the public cases: what is stated to work is not forbidden, what is stated to fail is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from spread import machine

from canserve.api import read_model
from canserve.layout import Host, Question
from canserve.layout.judged import Judged
from canserve.subjects.parallel import Parallel

NEWEST = {"vllm": "0.33.0", "sglang": "0.5.23"}
NOT_OF_THE_LAYOUT_ALONE = {
    "N056": "a kernel of AMD's library, not the layout",
    "N057": "a kernel of AMD's library, not the layout",
    "N075": "quantized while loading",
    "N093": "a bug of one image",
    "N090": "the layers that predict ahead",
}
"""Rows that are stated to fail for a reason that no constraint here is about."""


def rows(shared: Path, name: str) -> Iterator[tuple[dict[str, Any], Path]]:
    """Rows with a tensor parallel size and a model whose config is here."""
    folders = {path.name.lower(): path for path in (shared / "models").iterdir() if path.is_dir()}
    for text in (shared / "cases" / name).read_text().splitlines():
        row = json.loads(text)
        folder = folders.get(row["model"].replace("/", "__").lower())
        if folder and row["engine"] in NEWEST and isinstance((row.get("layout") or {}).get("tp"), int):
            yield row, folder


def broken(row: dict[str, Any], folder: Path) -> list[str]:
    """The constraints that a row's layout breaks, as far as can be told."""
    engine, layout = row["engine"], row["layout"]
    stated = str(row.get("engine_version") or "")
    exact = row.get("engine_version_kind", "exact") == "exact" and re.match(r"\d+\.\d+\.\d+", stated)
    version = stated if exact else NEWEST[engine]
    tp, pp, dp = layout["tp"], layout.get("pp") or 1, layout.get("dp") or 1
    spread = layout.get("ep") not in (None, False, 1)
    if engine == "sglang" and dp > 1:  # attention alone is data parallel there
        tp, spread = tp // dp, True
    hosts = tuple(Host(f"m{number}", machine(), 8) for number in range(16))
    asked = Judged(Question(read_model(str(folder)), hosts, engine, version))
    parallel = Parallel(tp, pp, dp, tp * dp if spread else 1)
    return [f"{c.name}: {ruling.verdict}" for c, ruling in asked.forbidden(parallel)]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["verdict_works.jsonl", "memory_logs.jsonl"])
def test_no_layout_that_works_is_forbidden(shared: Path, name: str) -> None:
    found = {row["id"]: wrong for row, folder in rows(shared, name) if (wrong := broken(row, folder))}
    assert not found


@pytest.mark.slow
def test_layouts_that_fail_are_forbidden(shared: Path) -> None:
    missed = [
        row["id"]
        for row, folder in rows(shared, "verdict_fails.jsonl")
        if row.get("reason_class") == "layout" and not broken(row, folder)
    ]
    assert set(missed) <= set(NOT_OF_THE_LAYOUT_ALONE)
