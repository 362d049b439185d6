"""Safetensors headers: counted exactly, and refused where the reference reader refuses them."""

from __future__ import annotations

import json
import re

import pytest
from model_making import LFS_POINTER, header_of, safetensors

from canserve.facts import Cause
from canserve.probes.model.documents import Unreadable
from canserve.probes.model.safetensors import MAX_HEADER, Tally, header_length, tally


def stored(_name: str, _dtype: str, elements: int) -> int:
    return elements


def read(data: bytes, size: int | None = None) -> Tally:
    """A whole file, as a reader takes it in."""
    size = len(data) if size is None else size
    length = header_length(data[:8] + data[8:64], size)
    return tally(data[8 : 8 + length], size, stored)


def file_of(header: object, data: int = 0) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(data)


def why(data: bytes, size: int | None = None) -> str:
    with pytest.raises(Unreadable) as caught:
        read(data, size)
    assert caught.value.why.isprintable()
    return caught.value.why


def test_a_header_is_counted_by_dtype() -> None:
    found = read(
        safetensors(
            {
                "model.layers.0.w": ("F8_E4M3", (4, 6)),
                "model.layers.0.w_scale_inv": ("BF16", (1, 1)),
                "mtp.layers.0.w": ("BF16", (3,)),
                "scalar": ("F32", ()),
                "packed": ("F4", (2, 4)),
                "empty": ("I64", (0, 7)),
            },
            {"format": "pt", "a brace": "}{"},
        )
    )
    assert found.by_dtype == {"F8_E4M3": 24, "BF16": 4, "F32": 1, "F4": 8, "I64": 0}
    assert (found.total, found.bytes, found.tensors, found.mtp_tensors) == (37, 24 + 8 + 4 + 4, 6, 1)


def test_padding_and_member_order_do_not_matter() -> None:
    text = b' { "a" : {"data_offsets" : [0,2],"shape":[1] ,"dtype":"BF16", "extra": 1}}   \n'
    assert read(file_of(text, 2)).by_dtype == {"BF16": 1}


def test_an_empty_checkpoint_has_no_tensors() -> None:
    assert read(file_of({})).tensors == 0


A = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    ("header", "data", "reason"),
    [
        ({"a": {**A, "dtype": "F12"}}, 8, "unknown dtype 'F12'"),
        ({"a": {**A, "dtype": None}}, 8, "unknown dtype"),
        ({"a": {**A, "shape": [3]}}, 8, "do not fill"),
        ({"a": {**A, "shape": [-2]}}, 8, "no sizes"),
        ({"a": {**A, "shape": [2.0]}}, 8, "no sizes"),
        ({"a": {**A, "shape": [True, 2]}}, 8, "no sizes"),
        ({"a": {**A, "shape": "2"}}, 8, "no sizes"),
        ({"a": {**A, "shape": [1 << 62] * 90}}, 8, "do not fill"),
        ({"a": {**A, "data_offsets": [8, 0]}}, 8, "do not fill"),
        ({"a": {**A, "data_offsets": [-8, 0]}}, 8, "no sizes"),
        ({"a": {**A, "data_offsets": [0]}}, 8, "no sizes"),
        ({"a": {**A, "data_offsets": [0, 1 << 70]}}, 8, "no sizes"),
        ({"a": {"dtype": "F32", "shape": [2]}}, 8, "no sizes"),
        ({"a": A, "b": A}, 8, "overlap or leave a gap"),
        ({"a": {**A, "data_offsets": [4, 12]}}, 12, "overlap or leave a gap"),
        ({"a": A, "b": {**A, "data_offsets": [16, 24]}}, 24, "overlap or leave a gap"),
        ({"a": A}, 7, "truncated"),
        ({"a": A}, 9, "longer than its header says"),
        ({"a": [1]}, 0, "no table"),
        ([], 0, "not JSON"),
        (b'{"a": ', 0, "no table"),
        (b'{"a" 1}', 0, "not JSON"),
        (b'{"a": {"x": "' + b"y" * 5000 + b'"}}', 0, "longer than 4096"),
        (b'{"a": {"x": ' + b"[" * 3000 + b"}}", 0, "not JSON"),
        (b"{} trailing", 0, "goes on"),
        (b'{"\xff": {}}', 0, "not UTF-8"),
        (b'{"__metadata__": {"a": 1}}', 0, "not JSON"),
        (b'{"__metadata__": [' + b"[" * 100_000, 0, "not JSON"),
    ],
)
def test_broken_headers_say_why(header: object, data: int, reason: str) -> None:
    assert reason in why(file_of(header, data))


def test_equal_names_are_seen_by_their_extents() -> None:
    one = '"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}'
    assert "overlap" in why(file_of(f"{{{one}, {one}}}".encode(), 4))


@pytest.mark.parametrize("claim", [1 << 63, (1 << 64) - 1, 10_000, MAX_HEADER + 1])
def test_an_absurd_header_length_is_refused_unread(claim: int) -> None:
    data = claim.to_bytes(8, "little") + b"{}"
    assert "claims" in why(data)
    if claim > MAX_HEADER:
        with pytest.raises(Unreadable, match="claims"):
            header_length(data, None)  # also where the size of the file is not known


def test_a_header_may_end_with_its_file_and_not_later() -> None:
    assert header_length((100).to_bytes(8, "little"), 108) == 100
    with pytest.raises(Unreadable, match="the header claims 101 bytes, the file has 108"):
        header_length((101).to_bytes(8, "little"), 108)


def test_too_short_a_file_and_a_pointer_are_told_apart() -> None:
    assert "too short" in why(b"\x02\0\0")
    with pytest.raises(Unreadable, match="Git LFS") as caught:
        header_length(LFS_POINTER, len(LFS_POINTER))
    assert caught.value.cause is Cause.UNAVAILABLE


def test_without_a_file_size_only_truncation_stays_unseen() -> None:
    header = header_of({"a": ("F32", (2,))})
    assert tally(header, None, stored).total == 2


def test_names_never_reach_a_message_raw() -> None:
    name = "w\x1b[2J\u202e\n" + "long" * 100
    said = why(file_of({name: {**A, "dtype": "?"}}))
    assert len(said) < 300
    assert re.search(r"\\x1b", said)
