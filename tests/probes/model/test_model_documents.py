"""Hostile and odd JSON ends in one line of why, in bounded time and memory."""

from __future__ import annotations

import math
import time
import tracemalloc

import pytest
from model_making import LFS_POINTER

from canserve.facts import Cause
from canserve.probes.model.documents import MAX_BYTES, Unreadable, parse
from canserve.probes.model.names import stays_inside


def why(data: bytes) -> str:
    with pytest.raises(Unreadable) as caught:
        parse(data)
    assert caught.value.why.isprintable()
    return caught.value.why


def test_a_document_is_what_pythons_json_makes_of_it() -> None:
    assert parse(b'{"a": [1, 2.5, null, true, "\\u00e9\\ud83d\\ude00"]}').value == {
        "a": [1, 2.5, None, True, "é😀"]
    }


def test_infinity_is_a_number_because_transformers_writes_it() -> None:
    value = parse(b'{"time_step_limit": [0.0, Infinity], "x": NaN, "y": -Infinity}').value
    assert value["time_step_limit"][1] == math.inf
    assert math.isnan(value["x"])


def test_the_last_of_two_equal_keys_counts_and_is_reported() -> None:
    found = parse(b'{"model_type": "a", "model_type": "b", "in": {"k": 1, "k": 2}}')
    assert found.value == {"model_type": "b", "in": {"k": 2}}
    assert set(found.repeated) == {"model_type", "k"}


def test_a_git_lfs_pointer_is_named_and_not_the_files_fault() -> None:
    with pytest.raises(Unreadable, match="Git LFS pointer") as caught:
        parse(LFS_POINTER)
    assert caught.value.cause is Cause.UNAVAILABLE
    assert caught.value.ask is not None


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b" \n ", "empty"),
        (b"\xef\xbb\xbf{}", "byte order mark"),
        ('{"a": 1}'.encode("utf-16"), "not UTF-8 at byte 0"),
        (b'{"a": "\xff"}', "not UTF-8 at byte 7"),
        (b"{'a': 1}", "not JSON"),
        (b'{"a": 1', "not JSON"),
        (b'{"a": 1}{}', "not JSON"),
        (b"<!doctype html><title>log in</title>", "not JSON"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not JSON"),
        (b'{"a": "\\ud800"}', "surrogate"),
        (b'{"\\udfff": 1}', "surrogate"),
    ],
)
def test_what_is_no_json_says_why(data: bytes, reason: str) -> None:
    assert reason in why(data)


@pytest.mark.parametrize("depth", [200, 1_000, 100_000])
def test_deep_json_is_refused_at_every_depth(depth: int) -> None:
    assert "nested deeper" in why(b"[" * depth + b"]" * depth)
    assert "nested deeper" in why(b'{"a":' * depth + b"1" + b"}" * depth)


def test_a_hundred_megabytes_are_refused_before_they_are_parsed() -> None:
    data = b'{"a": "' + b"x" * 100_000_000 + b'"}'
    begin = time.process_time()
    assert "larger than" in why(data)
    assert time.process_time() - begin < 1


@pytest.mark.parametrize("filling", [b"[],", b"{},", b"1,", b'"ab",', b'{"a":1},'])
def test_memory_stays_bounded_however_the_bytes_are_filled(filling: bytes) -> None:
    data = b"[" + filling * ((MAX_BYTES - 10) // len(filling)) + b"1]"
    tracemalloc.start()
    try:
        with pytest.raises(Unreadable):
            parse(data)
        assert tracemalloc.get_traced_memory()[1] < 80e6
    finally:
        tracemalloc.stop()


def test_containers_and_values_are_counted_apart() -> None:
    assert "containers" in why(b"[" + b"[]," * 250_000 + b"1]")
    assert "values" in why(b"[" + b"1," * 1_100_000 + b"1]")
    assert len(parse(b"[" + b"[]," * 150_000 + b"1]").value) == 150_001


@pytest.mark.parametrize(
    "name", ["", "/a", "../a", "a/../b", "a//b", "./a", "a/", "a\\b", "C:/a", "a\nb", "a\0b", "a" * 2000]
)
def test_names_that_leave_a_tree_are_no_names(name: str) -> None:
    assert not stays_inside(name)
    assert stays_inside("original/params.json")
