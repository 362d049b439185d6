"""What ``skim`` writes, read again: names and kept contents as one layer, and how each area ended.

It comes from another machine: bounded, and nothing in it is believed to be well-formed.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from canserve.trees.archive.stream import BombError
from canserve.trees.image.layer import FILE, FOLDER, HARD, LINK, SPECIAL, Builder, Layer, Node

MAX_UNPACKED = 768 << 20
"""Bytes of all lines and kept contents."""
MAX_LINE = 64 << 10
MAX_AREAS = 1000


@dataclass(frozen=True, slots=True)
class Ended:
    """How the reading of one area ended."""

    status: int
    """Of the engine's client; negative for a signal."""
    cut: str | None
    """Why it was cut: ``size``, ``time``, or what was wrong with the archive; None: it was not."""
    error: str
    """The beginning of stderr."""

    @property
    def whole(self) -> bool:
        """Whether nothing of it is missing."""
        return self.status == 0 and self.cut is None


@dataclass(frozen=True, slots=True)
class Skimmed:
    """What one run gave."""

    layer: Layer
    areas: dict[int, Ended]
    """By number; an area that is not in it was not read to its end."""
    trouble: str | None
    """Why something is missing beside areas that say so themselves; None: nothing is."""


def read(data: bytes) -> Skimmed:
    """All that can be made of an output, however it was cut."""
    builder = Builder()
    areas: dict[int, Ended] = {}
    trouble: str | None = "it was cut short"
    try:
        for values, content in _lines(data):
            if values == ["end"]:
                trouble = None
            elif values[0] == "area":
                _, number, status, cut, error = values
                if type(number) is not int or len(areas) > MAX_AREAS:
                    raise ValueError("areas that nobody asked for")
                areas[number] = Ended(int(status), None if cut is None else str(cut)[:200], str(error)[:2000])
            else:
                _put(builder, values, content)
    except (ValueError, TypeError, IndexError, KeyError, RecursionError, zlib.error, BombError) as error:
        trouble = f"it is damaged: {error}"[:300]
    return Skimmed(builder.layer(), areas, trouble)


def _put(builder: Builder, values: list[Any], content: bytes | None) -> None:
    kind, path = values[0], values[1]
    if not isinstance(path, str):
        raise TypeError("a path that is no text")
    match kind:
        case "f":
            node = Node(FILE, int(values[2]))
        case "d":
            node = Node(FOLDER)
        case "l":
            node = Node(LINK, target=str(values[2]))
        case "h":
            node = Node(HARD, target=str(values[2]))
        case "s":
            node = Node(SPECIAL)
        case _:
            raise ValueError("a line of no known kind")
    if builder.put(path, node) and content is not None:
        builder.packed[path] = zlib.compress(content, 1)


def _lines(data: bytes) -> Iterator[tuple[list[Any], bytes | None]]:
    """Each line with the content that follows it."""
    stream = _Unpacked(data)
    while (line := stream.line()) is not None:
        values = json.loads(line)
        if not isinstance(values, list) or not values:
            raise ValueError("a line that is no list")
        content = None
        if values[0] == "f" and (count := values[3]) != -1:
            if type(count) is not int or count < 0 or count != values[2]:
                raise ValueError("a content of no size")
            content = stream.exactly(count)
            if content is None:
                return
        yield values, content


class _Unpacked:
    """The unpacked bytes, piece by piece."""

    def __init__(self, data: bytes) -> None:
        self._machine = zlib.decompressobj()
        self._rest = data
        self._have = bytearray()
        self._at = 0
        self._passed = 0

    def line(self) -> bytes | None:
        """Up to the next newline; None: there is no whole one."""
        start = self._at
        while (end := self._have.find(b"\n", start)) < 0:
            start = len(self._have)
            if start - self._at > MAX_LINE:
                raise ValueError("a line without an end")
            before = self._at
            if not self._more():
                return None
            start -= before - self._at
        found = bytes(self._have[self._at : end])
        self._at = end + 1
        return found

    def exactly(self, count: int) -> bytes | None:
        """So many bytes; None: there are fewer."""
        while len(self._have) - self._at < count:
            if not self._more():
                return None
        found = bytes(self._have[self._at : self._at + count])
        self._at += count
        return found

    def _more(self) -> bool:
        if self._machine.eof or not self._rest:
            return False
        piece = self._machine.decompress(self._rest, 1 << 20)
        self._rest = self._machine.unconsumed_tail
        self._passed += len(piece)
        if self._passed > MAX_UNPACKED:
            raise BombError(f"it unpacks to more than {MAX_UNPACKED} bytes")
        del self._have[: self._at]
        self._at = 0
        self._have += piece
        return bool(piece)
