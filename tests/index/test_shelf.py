"""The index's data format, and the history read from it."""

from __future__ import annotations

import json
import lzma
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from canserve.index.history import ReleaseHistory
from canserve.index.rows import Release, Row, release_of, rows_of, shelve
from canserve.index.shelf import Shelf, ShelfError, expand, holds, pack, runs, unpack
from canserve.trees.index.pages import File


def row(version: str, *names: str, unread: tuple[str, ...] = ()) -> tuple[Release, Row]:
    listed = {"version": version, "date": "2026-01-01", "file": "f", "sha256": version, "platforms": ["any"]}
    tables = {"architectures": names, "flags": ("--a",)}
    said = {"transformers": ">=4", **({"unread": dict.fromkeys(unread, "odd")} if unread else {})}
    return (
        Release(Version(version), listed, None),
        Row(version, said, {k: v for k, v in tables.items() if k not in unread}),
    )


ROWS = [row("1.0", "A"), row("1.10", "A", "B"), row("1.2", "B"), row("2.0", "A", "B", unread=("flags",))]
SHELF = replace(shelve("eng", ROWS), built="2026-11-30")


def history(shelf: Shelf) -> ReleaseHistory:
    return ReleaseHistory({"eng": shelf})


@given(st.sets(st.integers(0, 300)))
def test_runs_hold_exactly_what_was_put_in(positions: set[int]) -> None:
    text = runs(positions)
    assert set(expand(text)) == positions
    assert all(holds(text, p) == (p in positions) for p in range(302))


def test_a_shelf_survives_the_disk_and_is_the_same_every_time() -> None:
    assert pack(unpack(pack(SHELF))) == pack(SHELF)
    assert unpack(pack(SHELF)) == SHELF
    assert pack(replace(shelve("eng", ROWS[::-1]), built="2026-11-30")) == pack(SHELF)


def test_rows_come_back_as_they_went_in() -> None:
    back = rows_of(unpack(pack(SHELF)))
    ordered = sorted(ROWS, key=lambda pair: pair[0].version)
    assert back == [row for _, row in ordered]
    assert "flags" not in back[3].names
    assert shelve("eng", zip((r for r, _ in ordered), back, strict=True)) == replace(SHELF, built="")


def test_the_platforms_of_all_wheels_are_kept_but_those_where_nobody_serves() -> None:
    file = File("f.whl", "", Version("1"), None, (), (), "0" * 64)
    of = {
        ("manylinux1_x86_64", "manylinux2014_aarch64", "macosx_11_0_arm64", "win_amd64"): [
            "manylinux1_x86_64",
            "manylinux2014_aarch64",
        ],
        ("win_amd64",): ["win_amd64"],
        ("any",): ["any"],
        (): [],
    }
    assert {given: release_of(file, given).listed["platforms"] for given in of} == of


def test_known_to_be_empty_is_not_unread() -> None:
    shelf = shelve("eng", [row("1.0"), row("1.1", "A", unread=("flags",))])
    assert not shelf.is_unread("architectures", 0)
    assert shelf.is_unread("flags", 1)
    assert rows_of(shelf)[0].names["architectures"] == ()


def test_nothing_is_known_of_a_release_that_was_not_understood() -> None:
    odd = (row("1.1")[0], Row("1.1", {"unreadable": "a form of its own"}, {}))
    shelf = shelve("eng", [row("1.0", "A"), odd])
    assert shelf.is_unread("architectures", 1)
    assert shelf.is_unread("flags", 1)
    assert rows_of(shelf)[1] == odd[1]


def test_a_registry_that_shrank_is_not_written_as_if_it_were_whole() -> None:
    names = [f"A{number}" for number in range(20)]
    rows = [row("1.0", *names), row("1.1", *names[:17]), row("1.2", *names[:18]), row("1.3", *names[:16])]
    shelf = shelve("eng", rows)
    assert [shelf.is_unread("architectures", at) for at in range(4)] == [False, True, False, True]
    assert shelf.releases[1]["shrank"].startswith("only 17 architectures were read where 1.0 has 20")
    assert "where 1.2 has 18" in shelf.releases[3]["shrank"]  # 1.1 is nothing to compare with
    assert "shrank" not in rows_of(shelf)[1].said  # it is found anew when neighbours come


def test_nothing_is_filled_in_between() -> None:
    past = history(SHELF)
    assert past.releases_with("eng", "A") == ("1.0", "1.10", "2.0")
    assert past.releases_with("eng", "C") == ()
    assert past.names("eng") == {"A", "B"}
    assert past.first_listing("eng", "flags", "--a") == "1.0"


@pytest.mark.parametrize(
    ("version", "count"), [("0.9", None), ("1.0", None), ("1.2", 1), ("1.5", 1), ("2.0", 2), ("3.0", 2)]
)
def test_a_neighbour_is_the_release_before(version: str, count: int | None) -> None:
    past = history(SHELF)
    assert past.neighbour_count("eng", Version(version)) == count
    assert past.neighbour_count("other", Version(version)) is None


def head(**changed: object) -> bytes:
    line, _, body = pack(SHELF).partition(b"\n")
    return json.dumps({**json.loads(line), **changed}).encode() + b"\n" + body


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "damaged"),
        (b"not an index\n", "damaged"),
        (b"[1]\n", "damaged"),
        (b"{}\n", "damaged"),
        (lzma.compress(b"{}"), "damaged"),
        (pack(SHELF)[:-20], "checksum"),
        (pack(SHELF)[:-1] + b"?", "checksum"),
        (head(schema=99), "schema 99; this program reads 2"),
        (head(schema=None), "schema None"),
        (head(parts=[]), "damaged"),
        (head(parts=[["words", "x"]]), "damaged"),
        (head(parts=[["words", -5]]), "damaged"),
        (head(parts=5), "damaged"),
        (head(crc="x"), "checksum"),
    ],
)
def test_damaged_data_is_an_error_of_its_own(data: bytes, says: str) -> None:
    with pytest.raises(ShelfError, match=says):
        unpack(data)


@given(st.data())
def test_no_changed_byte_goes_unnoticed(draw: st.DataObject) -> None:
    data = bytearray(pack(SHELF))
    at = draw.draw(st.integers(data.index(b"\n"), len(data) - 1))
    data[at] ^= draw.draw(st.integers(1, 255))
    with pytest.raises(ShelfError):
        unpack(bytes(data))
