"""Streams in blocks: every line once, numbered, whatever its length and packing."""

from __future__ import annotations

import gzip
import io

import pytest

from canserve.probes.logs import blocks as module
from canserve.probes.logs.blocks import LONGEST, blocks


class Dripping(io.BytesIO):
    """Gives few bytes at a time, as a pipe may."""

    def read(self, count: int | None = -1, /) -> bytes:
        return super().read(min(count or 0, 1000))


TEXT = b"".join(b"line %d\r\n" % number for number in range(1, 4000)) + b"no end"


@pytest.mark.parametrize(
    "packing", [bytes, gzip.compress, lambda data: gzip.compress(data) + gzip.compress(b"")]
)
@pytest.mark.parametrize("source", [io.BytesIO, Dripping])
def test_all_lines_come_once_and_numbered(packing: type, source: type) -> None:
    found = list(blocks(source(packing(TEXT))))
    assert b"".join(block.data for block in found) == TEXT
    for block in found:
        if block.data.startswith(b"line "):
            assert int(block.data.split()[1]) == block.first


def test_two_bytes_a_letter_become_one() -> None:
    found = b"".join(block.data for block in blocks(io.BytesIO("Fehler: ä\nx".encode("utf-16"))))
    assert found.decode().lstrip("\ufeff") == "Fehler: ä\nx"


def test_a_line_without_end_comes_in_pieces() -> None:
    data = b"a" * (3 * module.BLOCK) + b"\nlast"
    found = list(blocks(io.BytesIO(data)))
    assert b"".join(block.data for block in found) == data
    assert max(len(block.data) for block in found) <= module.BLOCK + LONGEST
    assert found[-1].first == 2


def test_a_broken_archive_ends_where_it_breaks() -> None:
    packed = gzip.compress(TEXT)
    assert TEXT.startswith(b"".join(block.data for block in blocks(io.BytesIO(packed[:-200]))))
    assert list(blocks(io.BytesIO(b"\x1f\x8bnothing"))) == []
