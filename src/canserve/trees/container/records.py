"""What ``skim`` writes, read again: names and kept contents as one layer, and how each area ended.

It comes from another machine: bounded, and nothing in it is believed to be well-formed.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from canserve.trees.archive.stream import BombError
from canserve.trees.image.layer import FILE, FOLDER, HARD, LINK, SPECIAL, Builder, Layer, Node

MAX_UNPACKED = 768 << 20
"""Bytes of all lines and kept contents."""
HEAD = struct.Struct(">II")
"""Of a frame: packed bytes of its lines, and of the content that follows them."""
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

    @property
    def why(self) -> str:
        """Why something of it is missing."""
        match self.cut:
            case "size":
                return "it is larger than what is passed over"
            case "time":
                return "the time for reading it was over"
            case None:
                return " ".join(self.error.split())[:200] or f"exit status {self.status}"
            case other:
                return other


UNREAD = "it was not read to its end"
"""Why something is missing of an area that did not end."""


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
        builder.packed[path] = content


def _frames(data: bytes) -> Iterator[tuple[bytes, bytes | None]]:
    """The lines of each frame and the packed content after them; None: it was cut off."""
    at, room = 0, MAX_UNPACKED
    while at + HEAD.size <= len(data):
        lines, content = HEAD.unpack_from(data, at)
        start = at + HEAD.size
        middle = start + lines
        at = middle + content
        if middle > len(data):
            return
        unpacked = zlib.decompressobj().decompress(data[start:middle], room + 1)
        room -= len(unpacked)
        if room < 0:
            raise BombError(f"it unpacks to more than {MAX_UNPACKED} bytes")
        yield unpacked, data[middle:at] if at <= len(data) else None


def _lines(data: bytes) -> Iterator[tuple[list[Any], bytes | None]]:
    """Each line with the content that follows it, as zlib packed it."""
    room = MAX_UNPACKED
    for lines, content in _frames(data):
        *texts, rest = lines.split(b"\n")
        if rest:
            raise ValueError("a line without an end")
        for number, text in enumerate(texts, 1):
            values = json.loads(text)
            if not isinstance(values, list) or not values:
                raise ValueError("a line that is no list")
            if values[0] != "f" or values[3] == -1:
                yield values, None
                continue
            size = values[2]
            if type(size) is not int or size < 0 or number < len(texts):
                raise ValueError("a content of no size")
            if content is None:
                return
            if values[3] != len(content):
                raise ValueError("a content of another size")
            room -= size
            if room < 0:
                raise BombError(f"it holds more than {MAX_UNPACKED} bytes")
            yield values, content
