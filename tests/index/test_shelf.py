"""The index's data format and the history read from it."""

from __future__ import annotations

import lzma

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from canserve.index.gather import Row, rows_of, shelve
from canserve.index.history import ReleaseHistory
from canserve.index.shelf import Shelf, ShelfError, expand, holds, pack, runs, unpack


def row(version: str, *names: str, unread: tuple[str, ...] = ()) -> Row:
    release = {
        "version": version,
        "date": "2026-01-01",
        "file": "f",
        "sha256": version,
        "transformers": ">=4",
    }
    tables = {"architectures": names, "flags": ("--a",)}
    return Row(release, {k: v for k, v in tables.items() if k not in unread}, unread)


ROWS = [row("1.0", "A"), row("1.10", "A", "B"), row("1.2", "B"), row("2.0", "A", "B", unread=("flags",))]


def history(shelf: Shelf) -> ReleaseHistory:
    return ReleaseHistory({"eng": shelf})


@given(st.sets(st.integers(0, 300)))
def test_runs_hold_exactly_what_was_put_in(positions: set[int]) -> None:
    text = runs(positions)
    assert set(expand(text)) == positions
    assert all(holds(text, p) == (p in positions) for p in range(302))


def test_a_shelf_survives_the_disk_and_is_the_same_every_time() -> None:
    shelf = shelve("eng", ROWS, "2026-11-30")
    assert pack(unpack(pack(shelf))) == pack(shelf)
    assert unpack(pack(shelf)) == shelf


def test_rows_come_back_as_they_went_in() -> None:
    shelf = shelve("eng", ROWS, "2026-11-30")
    back = rows_of(shelf)
    assert [r.release["version"] for r in back] == ["1.0", "1.2", "1.10", "2.0"]
    assert back[0].tables["architectures"] == ("A",)
    assert back[3].unread == ("flags",)
    assert "flags" not in back[3].tables
    assert shelve("eng", back, "2026-11-30") == shelf


def test_nothing_is_filled_in_between() -> None:
    past = history(shelve("eng", ROWS, "2026-11-30"))
    assert past.releases_with("eng", "A") == ("1.0", "1.10", "2.0")
    assert past.releases_with("eng", "C") == ()
    assert past.names("eng") == {"A", "B"}
    assert past.first_listing("eng", "flags", "--a") == "1.0"


@pytest.mark.parametrize(
    ("version", "count"), [("0.9", None), ("1.0", None), ("1.2", 1), ("1.5", 1), ("2.0", 2), ("3.0", 2)]
)
def test_a_neighbour_is_the_release_before(version: str, count: int | None) -> None:
    past = history(shelve("eng", ROWS, "2026-11-30"))
    assert past.neighbour_count("eng", Version(version)) == count
    assert past.neighbour_count("other", Version(version)) is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not xz",
        lzma.compress(b"{}"),
        lzma.compress(b"[1]"),
        lzma.compress(b'{"schema": 99}'),
        pack(shelve("eng", ROWS, ""))[:-20],
    ],
)
def test_damaged_data_is_an_error_of_its_own(data: bytes) -> None:
    with pytest.raises(ShelfError):
        unpack(data)
