"""Lines that are drawn while a deployment starts, and one line for where they cannot be."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.cells import cell_len

from canserve.render.progress import fitted, furthest, live_lines, ranks_output
from canserve.subjects.progress import Count, Outlook, Stage


def stage(rank: int | None, phase: str = "loading", **more: object) -> Stage:
    it = Stage(rank or 0, "spark-1", rank, phase, 3.0, 9.0, history=(("pending", 0.0), (phase, 3.0)))
    return replace(it, **more)  # type: ignore[arg-type]


def test_a_line_for_each_rank() -> None:
    stages = (
        stage(0, count=Count("loading", 3, 14), rate=1.25e9, last="Loading"),
        stage(1, "connecting", moved=5.0),
        stage(None),
    )
    first, second = live_lines(Outlook(20.0, stages), 200)
    assert first.split() == [
        "rank",
        "0",
        "spark-1",
        "weights",
        "3",
        "of",
        "14",
        "17",
        "s",
        "1250",
        "MB/s",
        "still",
        "for",
        "11",
        "s",
        "Loading",
    ]
    assert "ranks joining" in second and "still for 15 s" in second
    assert furthest(stages) == "rank 0: weights 3 of 14; rank 1: ranks joining"


def test_lines_fit_and_hide_nothing_of_a_terminal() -> None:
    (line,) = live_lines(Outlook(5.0, (stage(0, last="\x1b[2J" + "x" * 500),)), 80)
    assert len(line) < 80 and "\x1b" not in line and "\\x1b" in line


def test_many_ranks_are_counted() -> None:
    stages = tuple(stage(rank, "joined" if rank > 2 else "connecting") for rank in range(1000))
    lines = live_lines(Outlook(5.0, stages), 120, most=10)
    assert len(lines) == 10 and [line.split()[1] for line in lines[:3]] == ["0", "1", "2"]
    assert lines[-1].strip() == "991 ranks communicator ready"
    assert furthest(stages) == "rank 0,1,2: ranks joining; 997 ranks: communicator ready"


def test_a_report_has_every_phase_and_its_time() -> None:
    (one,) = ranks_output((stage(0),))
    assert [(each.phase, each.at_s) for each in one.phases] == [("loading", 3.0)] and one.says == "weights"


@pytest.mark.parametrize("text", ["x" * 300, "中国的首都" * 60, "é" * 300, "short", "中" * 40])
@pytest.mark.parametrize("width", [40, 80])
def test_a_line_takes_one_row_however_wide_its_letters_are(text: str, width: int) -> None:
    shown = fitted(text, width)
    assert cell_len(shown) < width and text.startswith(shown)
    assert shown == text or cell_len(shown) >= width - 2
