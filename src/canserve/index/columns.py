"""Tables of names and runs as columns of numbers.

A table is rows of words (``awq 75``) with the releases that have them. Words and runs repeat far more often than
rows do, so a file holds each word and each run once, and a table as four columns: how many words
a row has, its first word, its other words, its run. Rows are sorted, so that the first word grows slowly
and is written as the difference to the row before; all numbers are written low bytes first, column by column.
"""

from __future__ import annotations

import lzma
import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

MAX_PART = 16 << 20
"""Bytes of one decompressed part of a file."""
MAX_ROWS = 1 << 21
MAX_LETTERS = 64 << 20
"""Of all words together."""
_HEAD = struct.Struct("<IIBB")
_FILTERS = [
    {
        "id": lzma.FILTER_LZMA2,
        "preset": 9 | lzma.PRESET_EXTREME,
        "dict_size": 1 << 20,
        "lc": 3,
        "lp": 0,
        "pb": 0,
    }
]


class ColumnError(ValueError):
    """Bytes that are no table."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Every word and every run of a file, by number."""

    words: Sequence[str]
    runs: Sequence[str]
    """The most frequent one first."""


def vocabulary_of(tables: Iterable[Mapping[str, str]]) -> Vocabulary:
    """The words and runs of these tables."""
    words: set[str] = set()
    runs: Counter[str] = Counter()
    for table in tables:
        runs.update(table.values())
        for name in table:
            words.update(name.split(" "))
    return Vocabulary(sorted(words), [run for run, _ in sorted(runs.items(), key=lambda p: (-p[1], p[0]))])


def front_coded(words: Sequence[str]) -> tuple[bytes, bytes]:
    """Sorted words as two columns: how many letters each shares with the one before, and the rest of it."""
    shared, rests, before = bytearray(), [], ""
    for word in words:
        pairs = zip(word[:0xFF], before, strict=False)
        count = next(
            (at for at, (one, other) in enumerate(pairs) if one != other), min(len(word), len(before), 0xFF)
        )
        shared.append(count)
        rests.append(word[count:])
        before = word
    return bytes(shared), "\n".join(rests).encode()


def front_decoded(shared: bytes, rests: bytes) -> list[str]:
    """The words again. Raises ColumnError."""
    parts, words, before = rests.decode(errors="replace").split("\n"), [], ""
    if len(parts) != max(1, len(shared)):
        raise ColumnError("columns of unequal length")
    letters = 0
    for count, rest in zip(shared, parts, strict=False):
        before = before[:count] + rest
        words.append(before)
        letters += len(before)
        if letters > MAX_LETTERS:
            raise ColumnError("words without end")
    return words


class Writer:
    """Writes tables in the numbers of one vocabulary."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._words = {word: number for number, word in enumerate(vocabulary.words)}
        self._runs = {run: number for number, run in enumerate(vocabulary.runs)}

    def table(self, table: Mapping[str, str]) -> bytes:
        """One table, uncompressed; the smaller one of two ways to write the other words is taken."""
        rows = sorted(
            ([self._words[w] for w in name.split(" ")], self._runs[run]) for name, run in table.items()
        )
        if any(len(words) > 0xFF for words, _ in rows):
            raise ColumnError("a row of more than 255 words")
        rest = [word for words, _ in rows for word in words[1:]]
        width = _width(max(len(self._words), len(self._runs)))
        firsts = _deltas([words[0] for words, _ in rows])
        runs = [run for _, run in rows]
        ways = [
            _HEAD.pack(len(rows), len(rest), width, way)
            + bytes(len(words) for words, _ in rows)
            + _planes(firsts, width)
            + _planes(_deltas(rest) if way else rest, width)
            + _planes(runs, width)
            for way in (0, 1)
        ]
        return min(ways, key=lambda way: len(compress(way)))


def read_table(data: bytes, vocabulary: Vocabulary) -> dict[str, str]:
    """Name -> run. Raises ColumnError."""
    try:
        count, others, width, way = _HEAD.unpack_from(data)
    except struct.error as error:
        raise ColumnError(str(error)) from error
    if max(count, others) > MAX_ROWS or not 1 <= width <= 4:
        raise ColumnError(f"{count} rows, {others} words, {width} bytes a number")
    at = _HEAD.size
    lengths, at = data[at : at + count], at + count
    if len(data) != at + width * (2 * count + others) or sum(lengths) != count + others or 0 in lengths:
        raise ColumnError("columns of unequal length")
    firsts = _sums(_numbers(data, at, count, width), width)
    rest = _numbers(data, at + width * count, others, width)
    rest = _sums(rest, width) if way else rest
    runs = _numbers(data, at + width * (count + others), count, width)
    return _named(list(zip(lengths, firsts, runs, strict=True)), rest, vocabulary)


def _named(
    rows: Sequence[tuple[int, int, int]], rest: Sequence[int], vocabulary: Vocabulary
) -> dict[str, str]:
    words, runs, found, at = vocabulary.words, vocabulary.runs, {}, 0
    try:
        for length, first, run in rows:
            if length == 1:
                found[words[first]] = runs[run]
                continue
            end = at + length - 1
            found[" ".join([words[first], *[words[number] for number in rest[at:end]]])] = runs[run]
            at = end
    except IndexError:
        raise ColumnError("a number without a word") from None
    return found


def compress(data: bytes) -> bytes:
    """Packed for the disk."""
    return lzma.compress(data, format=lzma.FORMAT_RAW, filters=_FILTERS)


def decompress(data: bytes) -> bytes:
    """Unpacked, to at most ``MAX_PART`` bytes. Raises ColumnError."""
    machine = lzma.LZMADecompressor(format=lzma.FORMAT_RAW, filters=_FILTERS)
    try:
        out = machine.decompress(data, MAX_PART)
    except (lzma.LZMAError, EOFError) as error:
        raise ColumnError(str(error)) from error
    if not machine.eof:
        raise ColumnError("a part that is cut short, or too large")
    return out


def _width(count: int) -> int:
    return max(1, (max(count - 1, 1).bit_length() + 7) // 8)


def _deltas(numbers: Sequence[int]) -> list[int]:
    return [now - before for before, now in zip([0, *numbers], numbers, strict=False)]


def _sums(numbers: Sequence[int], width: int) -> list[int]:
    mask = (1 << 8 * width) - 1
    return [number & mask for number in accumulate(numbers)]


def _planes(numbers: Sequence[int], width: int) -> bytes:
    return b"".join(bytes(number >> 8 * plane & 0xFF for number in numbers) for plane in range(width))


def _numbers(data: bytes, at: int, count: int, width: int) -> list[int]:
    planes = [data[at + plane * count : at + (plane + 1) * count] for plane in range(width)]
    if width == 1:
        return list(planes[0])
    if width == 2:
        return [low | high << 8 for low, high in zip(*planes, strict=True)]
    return [
        sum(byte << 8 * plane for plane, byte in enumerate(bytes_)) for bytes_ in zip(*planes, strict=True)
    ]
