"""A stream of bytes as blocks that end at a line's end, whatever it is wrapped in.

At most two blocks are in memory, however long the stream or a line is.
"""

from __future__ import annotations

import codecs
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

BLOCK = 4 << 20
"""Bytes read at a time."""
LONGEST = 1 << 20
"""A line longer than this is looked at in pieces."""
_GZIP = b"\x1f\x8b"
_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


class Source(Protocol):
    """Something that gives bytes until it gives none."""

    def read(self, count: int, /) -> bytes:
        """At most so many bytes; none at the end."""
        ...


@dataclass(frozen=True, slots=True)
class Block:
    """Some whole lines, or a piece of one that is too long."""

    data: bytes
    first: int
    """Number of its first line, counted from 1."""


def blocks(source: Source) -> Iterator[Block]:
    """All lines of a stream, in order."""
    rest, number = b"", 1
    for piece in _plain(source):
        data = rest + piece
        end = data.rfind(b"\n") + 1
        if not end and len(data) < LONGEST:
            rest = data
            continue
        whole, rest = (data[:end], data[end:]) if end else (data, b"")
        yield Block(whole, number)
        number += whole.count(b"\n")
        if len(rest) > LONGEST:
            yield Block(rest, number)
            rest = b""
    if rest:
        yield Block(rest, number)


def is_packed(first: bytes) -> bool:
    """Whether bytes that begin so are unpacked or decoded here, and are no text as they stand."""
    return first.startswith(_GZIP) or first[:2] in _UTF16


def _plain(source: Source) -> Iterator[bytes]:
    """Unpacked and in one byte a letter, where the first bytes say that it is not."""
    first = source.read(BLOCK)
    if first.startswith(_GZIP):
        yield from _unpacked(first, source)
        return
    encoding = _UTF16.get(first[:2])
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace") if encoding else None
    while first:
        yield decoder.decode(first).encode("utf-8", "replace") if decoder else first
        first = source.read(BLOCK)


def _unpacked(first: bytes, source: Source) -> Iterator[bytes]:
    unpack = zlib.decompressobj(wbits=31)
    packed = first
    while packed:
        try:
            yield unpack.decompress(packed, BLOCK)
        except zlib.error:
            return
        packed = unpack.unconsumed_tail
        if unpack.eof:
            packed, unpack = unpack.unused_data, zlib.decompressobj(wbits=31)
        packed = packed or source.read(BLOCK)
