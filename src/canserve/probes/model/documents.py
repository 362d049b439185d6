"""JSON from strangers: bounded in size, depth and memory; a bad document is one line of why, no traceback.

Values are those that Python's ``json`` gives the engines: the last of two equal keys counts, and ``NaN`` and
``Infinity`` are numbers (transformers writes them, for example in ``time_step_limit``).
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

from canserve.facts import Cause
from canserve.trees.names import printable

MAX_BYTES = 16 << 20
"""Largest document that is parsed; the largest real one measured (a mixed-precision map) has 0.9 MB."""
MAX_DEPTH = 100
MAX_CONTAINERS = 200_000
MAX_VALUES = 1_000_000
"""An empty container takes about 64 bytes for 3 of text: counted first, so that memory stays bounded."""

LFS_POINTER = b"version https://git-lfs.github.com/spec/"


class Unreadable(Exception):  # noqa: N818 - a result that travels, not a fault of this program
    """Why a file could not be understood, in one line."""

    def __init__(self, why: str, cause: Cause = Cause.UNREADABLE, ask: str | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.cause = cause
        self.ask = ask


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed file, and the keys that stood in it more than once."""

    value: Any
    repeated: tuple[str, ...] = ()


def refuse_pointer(head: bytes) -> None:
    """Raise when a file is a Git LFS pointer in place of its content."""
    if head.startswith(LFS_POINTER):
        raise Unreadable(
            "a Git LFS pointer stands in place of the file",
            Cause.UNAVAILABLE,
            "fetch the content: git lfs pull",
        )


def parse(data: bytes) -> Document:
    """Bytes of a JSON file -> its value. Raises :class:`Unreadable` on anything else."""
    refuse_pointer(data[:64])
    text = _text(data)
    _refuse_bulk(text)
    repeated: list[str] = []

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs) and len(repeated) < 10:
            counts = Counter(key for key, _ in pairs)
            repeated.extend(printable(key) for key, count in counts.items() if count > 1)
        return found

    try:
        value = json.loads(text, object_pairs_hook=members)
    except RecursionError:
        raise Unreadable(f"nested deeper than {MAX_DEPTH} levels") from None
    except ValueError as error:  # JSONDecodeError, and integers of more digits than Python converts
        raise Unreadable(f"not JSON: {printable(str(error), 120)}") from None
    _refuse_depth(value)
    if "\\u" in text:
        _refuse_surrogates(value)
    return Document(value, tuple(repeated))


def _text(data: bytes) -> str:
    if len(data) > MAX_BYTES:
        raise Unreadable(f"{len(data)} bytes, larger than the {MAX_BYTES} that are read")
    if not data.strip():
        raise Unreadable("the file is empty")
    if data.startswith(b"\xef\xbb\xbf"):
        raise Unreadable(
            "starts with a byte order mark, which Python's json refuses", ask="save it as UTF-8 without a BOM"
        )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unreadable(f"not UTF-8 at byte {error.start}") from None


def _refuse_bulk(text: str) -> None:
    if text.count("[") + text.count("{") > MAX_CONTAINERS or text.count(",") > MAX_VALUES:
        raise Unreadable(f"more than {MAX_CONTAINERS} containers or {MAX_VALUES} values")


def _children(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _refuse_depth(value: object) -> None:
    """Level by level, so that a deep document needs no deep stack here either."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [child for parent in level for child in _children(parent) if isinstance(child, (dict, list))]
        if not level:
            return
    raise Unreadable(f"nested deeper than {MAX_DEPTH} levels")


def _refuse_surrogates(value: object) -> None:
    """Half a surrogate pair is no character: it cannot be written to any output."""
    pending = [value]
    while pending:
        item = pending.pop()
        pending.extend(_children(item))
        texts = item if isinstance(item, dict) else (item,)
        for text in texts:
            if isinstance(text, str) and not text.isascii():
                try:
                    text.encode("utf-8")
                except UnicodeEncodeError:
                    raise Unreadable("a string holds half of a surrogate pair") from None
