"""Tables as columns of numbers: what goes in comes out, and bytes that are no table are an error of their own."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from canserve.index.columns import (
    ColumnError,
    Vocabulary,
    Writer,
    compress,
    decompress,
    front_coded,
    front_decoded,
    read_table,
    vocabulary_of,
)

WORDS = st.text(st.characters(exclude_characters=" \n", exclude_categories=["Cs"]), max_size=5)
NAMES = st.lists(WORDS, min_size=1, max_size=4).map(" ".join)
RUNS = st.sampled_from(["", "0", "3-40,52", "1-2"])
TABLE = {"awq 75": "0-3", "awq": "0-3", "gptq 60 x": "2", "zz awq": ""}


@given(st.dictionaries(NAMES, RUNS, max_size=40))
def test_a_table_survives(table: dict[str, str]) -> None:
    vocabulary = vocabulary_of([table])
    assert read_table(Writer(vocabulary).table(table), vocabulary) == table


@given(st.sets(WORDS))
def test_words_survive(words: set[str]) -> None:
    assert front_decoded(*front_coded(sorted(words))) == sorted(words)


def test_long_words_survive() -> None:
    words = ["a" * length for length in (254, 255, 256, 700)] + ["a" * 700 + "b"]
    assert front_decoded(*front_coded(words)) == words


@given(st.binary(max_size=20), st.binary(max_size=20))
def test_any_columns_are_words_or_an_error(shared: bytes, rests: bytes) -> None:
    with contextlib.suppress(ColumnError):
        front_decoded(shared, rests)


def test_words_without_end_are_refused() -> None:
    with pytest.raises(ColumnError):
        front_decoded(b"\xff" * 600_000, b"a" * 300 + b"\n" * 599_999)


@pytest.mark.parametrize("count", [200, 300, 70_000])
def test_numbers_grow_with_the_vocabulary(count: int) -> None:
    table = {f"{number:06} {count - number:06}": "0" for number in range(count)}
    vocabulary = vocabulary_of([table])
    assert read_table(Writer(vocabulary).table(table), vocabulary) == table


def test_rows_are_long_or_refused() -> None:
    for length, fits in ((255, True), (256, False)):
        table = {" ".join(map(str, range(length))): "0"}
        vocabulary = vocabulary_of([table])
        if fits:
            assert read_table(Writer(vocabulary).table(table), vocabulary) == table
        else:
            with pytest.raises(ColumnError):
                Writer(vocabulary).table(table)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_table_or_an_error(data: bytes) -> None:
    with contextlib.suppress(ColumnError):
        read_table(data, vocabulary_of([TABLE]))


@given(st.data())
def test_a_damaged_table_is_a_table_or_an_error(draw: st.DataObject) -> None:
    vocabulary = vocabulary_of([TABLE])
    data = bytearray(Writer(vocabulary).table(TABLE))
    data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    with contextlib.suppress(ColumnError):
        read_table(bytes(data), vocabulary)


@given(st.binary(max_size=200))
def test_unpacking_any_bytes_ends(data: bytes) -> None:
    with contextlib.suppress(ColumnError):
        decompress(data)


def test_a_bomb_is_refused() -> None:
    with pytest.raises(ColumnError):
        decompress(compress(bytes(17 << 20)))


def test_a_part_that_is_cut_is_refused() -> None:
    with pytest.raises(ColumnError):
        decompress(compress(b"abc" * 100)[:-3])


def test_numbers_beyond_the_vocabulary_are_refused() -> None:
    whole = vocabulary_of([TABLE])
    with pytest.raises(ColumnError):
        read_table(Writer(whole).table(TABLE), Vocabulary(whole.words[:2], whole.runs))
