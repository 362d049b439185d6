"""The journal: written before and after every step, readable by whoever comes later."""

from __future__ import annotations

import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from canserve.plan.steps.step import Step
from canserve.store.journal import EXCERPT, Journal, JournalError, journal

STEP = Step("start", "a", ("docker", "run", "x y"), 1, "it failed", process=0)
TOLD = {"model": "m", "machines": [{"name": "a"}]}


def test_what_was_written_is_read_by_another(tmp_path: Path) -> None:
    with journal(tmp_path) as one:
        one.begin("r1", "2026-11-30T10:00:00", TOLD)
        number = one.step("r1", "up", STEP, "2026-11-30T10:00:01")
        with journal(tmp_path) as other:  # while the first is still open: its operator may have been killed
            (kept,) = other.steps("r1")
            assert (kept.argv, kept.ended, kept.status) == (STEP.argv, None, None)
        one.stepped(number, "2026-11-30T10:00:02", 0, "id")
        one.settle("r1", "up")
    with journal(tmp_path) as later:
        (kept,) = later.steps("r1")
        assert (kept.status, kept.output, kept.process) == (0, "id", 0)
        found = later.run("r1")
        assert found is not None and found.state == "up" and found.told == TOLD
        assert later.run("r2") is None


def test_the_latest_comes_first(tmp_path: Path) -> None:
    with journal(tmp_path) as it:
        for name in ("r1", "r2", "r3"):
            it.begin(name, "2026-11-30T10:00:00", {})
        assert [entry.run for entry in it.runs()] == ["r3", "r2", "r1"]


def test_what_looks_like_a_secret_is_not_kept(tmp_path: Path) -> None:
    with journal(tmp_path) as it:
        it.begin("r1", "t", {})
        number = it.step("r1", "up", STEP, "t")
        said = "pulling https://ana:hunter2@registry.example/x with hf_AbCdEfGhIjKlMnOpQr"
        it.stepped(number, "t", 1, said + "." * EXCERPT)
        (kept,) = it.steps("r1")
        assert "hunter2" not in kept.output and "hf_AbC" not in kept.output and len(kept.output) == EXCERPT
        assert kept.output.startswith("pulling https://[REDACTED]@registry.example/x with [REDACTED]")


def test_it_is_the_users_alone(tmp_path: Path) -> None:
    with journal(tmp_path / "new") as it:
        assert stat.S_IMODE(it.path.parent.stat().st_mode) == 0o700


def test_what_cannot_be_used_says_so(tmp_path: Path) -> None:
    with journal(tmp_path) as it:
        it.begin("r1", "t", {})
        with pytest.raises(JournalError, match="there is a run r1 already"):
            it.begin("r1", "t", {})
    with sqlite3.connect(tmp_path / "journal.sqlite") as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(JournalError, match="form 99"):
        Journal(tmp_path)
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "journal.sqlite").write_bytes(b"no database at all" * 100)
    with pytest.raises(JournalError):
        Journal(tmp_path / "bad")


def test_many_write_at_once_and_each_is_told_its_own(tmp_path: Path) -> None:
    with journal(tmp_path) as kept:
        kept.begin("r", "t", {})

        def write(number: int) -> list[str]:
            wrong = []
            for turn in range(20):
                mine = kept.step("r", "up", Step("claim", f"m{number}", (str(turn),), 0, "f"), "t")
                kept.stepped(mine, "t", number, str(turn))
                try:
                    kept.begin("r" if turn % 2 else f"r{number}x{turn}", "t", {})
                except JournalError as error:
                    wrong.append(str(error))
            return wrong

        with ThreadPoolExecutor(16) as pool:
            refused = list(pool.map(write, range(16)))
        assert refused == [["there is a run r already"] * 10] * 16
        steps = kept.steps("r")
        assert len(steps) == 320 and len(kept.runs()) == 161
        for number in range(16):
            mine = [one for one in steps if one.machine == f"m{number}"]
            assert [one.argv for one in mine] == [(str(turn),) for turn in range(20)]
            assert {one.status for one in mine} == {number} and all(one.ended for one in mine)
