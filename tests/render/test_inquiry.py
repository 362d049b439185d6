"""Lines of a verification while it is made: in any room, whatever servers and machines say."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.cells import cell_len

from canserve.checks.served import CHECKS
from canserve.render.inquiry import doing, inquiry_lines, rank_told, told
from canserve.subjects.inquiry import Inquiry, Pace, Part, RankNow
from canserve.verify.ledger import PARTS, Ledger
from canserve.verify.limits import Limits
from canserve.verify.reply import Stream

YES = Part("itself", ("ready",), True, 0, 0, "", 0.2, "yes", "ready, right-model")
NO = Part(
    "known answers",
    ("answer-correct",),
    True,
    14,
    14,
    "",
    1.0,
    "no",
    "answer-correct: \x1b[2J 中国的首都" * 9,
)
NOW = Part("speed", ("speed-near-bound",), True, 7, 24, "8 at once, step 4 of 9")
WAITS = Part("crowd", ("overload-orderly",))
RANKS = (
    RankNow(0, (0,), "spark-1", True, "running", "rank 0: ready", 1.25, 58 << 30),
    RankNow(1, (1,), "spark-2", False, "exited with 137, out of \x1b[31mmemory"),
    RankNow(2, (2,), "spark-3", None, "could not be looked at"),
)
IT = Inquiry(12.0, (YES, NO, NOW, WAITS), Pace(8, 1820.0, 0.024), RANKS)


def test_a_line_for_each_part_and_rank() -> None:
    lines = inquiry_lines(IT, 80, 20, colour=False)
    assert lines[0] == "  yes      itself            0.2 s  ready, right-model"
    assert lines[2] == "  ...      speed           7 of 24  8 at once, step 4 of 9"
    assert lines[3].strip() == "crowd"
    assert (
        lines[4]
        == "  runs     rank 0          spark-1      ready, 1.2 processors, 58.0 GiB on accelerators"[:79]
    )
    assert lines[5].startswith(
        "  no       rank 1          spark-2      exited with 137, out of \\x1b[31mmemory"
    )
    assert lines[6].startswith("  unknown  rank 2          spark-3      could not be looked at")
    assert doing(IT) == "speed, 8 open, 1,820 tok/s, first token 24 ms"


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("most", [2, 4, 6, 30])
def test_it_keeps_to_the_room_there_is(width: int, most: int) -> None:
    lines = inquiry_lines(IT, width, most, colour=False)
    assert len(lines) <= most
    assert all(cell_len(line) < width and "\x1b" not in line for line in lines)
    assert any("speed" in line for line in lines), "what is being asked stays"


def test_what_is_wrong_stays_longest() -> None:
    many = replace(
        IT, parts=(*[replace(YES, name=f"part {n}") for n in range(9)], NO, NOW, WAITS), ranks=RANKS * 9
    )
    lines = inquiry_lines(many, 80, 8, colour=False)
    assert any("known answers" in line for line in lines) and any("spark-2" in line for line in lines)
    assert lines[-1] == "  26 more, 9 of them running"


def test_plain_lines() -> None:
    assert told(YES) == "itself: yes (ready, right-model)"
    assert told(replace(NO, said="answer-correct: 3 of 14")) == "known answers: no, answer-correct: 3 of 14"
    assert rank_told(RANKS[1]).startswith("rank 1 on spark-2: exited with 137")


def test_every_check_belongs_to_one_part() -> None:
    placed = [check.name for checks in PARTS.values() for check in checks]
    assert sorted(placed) == sorted(check.name for check in CHECKS)


def test_the_pace_is_of_what_came_since_the_last_look() -> None:
    ledger, stream = Ledger(), Stream(Limits(), 1000)
    ledger.begin("speed", 2)
    assert ledger.now().pace == Pace()
    with ledger.request(stream):
        stream.gathered.arrivals.extend([0.02, 0.03])
        now = ledger.now()
        assert now.pace.at_once == 1 and now.pace.first == 0.02
    ended = ledger.now()
    assert (
        ended.pace.at_once == 0
        and ended.current is not None
        and (ended.current.done, ended.current.total) == (1, 2)
    )
