"""The header of a GGUF file: metadata and tensor types, without their data.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md (versions 2 and 3, little-endian). Tensor
types: ``GGMLQuantizationType`` of llama.cpp's gguf-py. Long arrays
(vocabularies, merges) are walked over, not kept.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from canserve.probes.model.documents import Unreadable, refuse_pointer
from canserve.subjects.tensor import BLOCKS, Tensor
from canserve.trees.names import printable

MAX_HEADER = 64 << 20
"""Longest header that is walked; vocabularies of 260 000 tokens with merges take about 15 MB."""
MAX_ENTRIES = 10_000
MAX_TENSORS = 100_000
MAX_TEXT = 8 << 20
"""Bytes of strings that are kept, in sum (chat templates are the longest real ones)."""
MAX_ROW = 1024
"""Longest array of numbers that is kept: per-layer values."""
MAX_NUMBERS = 100_000
"""Numbers in kept arrays, in sum."""
MAX_NESTED = 1000
"""Arrays inside arrays, in sum; no writer is known to make any."""

Read = Callable[[int, int], bytes]
"""Bytes from start to end of the file, fewer only at its end. May raise."""

TYPES: Mapping[int, str] = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 9: "Q8_1", 10: "Q2_K",
    11: "Q3_K", 12: "Q4_K", 13: "Q5_K", 14: "Q6_K", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS",
    19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 24: "I8", 25: "I16", 26: "I32",
    27: "I64", 28: "F64", 29: "IQ1_M", 30: "BF16", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4", 40: "NVFP4",
    41: "Q1_0", 42: "Q2_0",
}  # fmt: skip
"""Type number -> name."""

FILE_TYPES: Mapping[int, str] = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K", 11: "Q3_K_S",
    12: "Q3_K_M", 13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M", 18: "Q6_K",
    19: "IQ2_XXS", 20: "IQ2_XS", 21: "Q2_K_S", 22: "IQ3_XS", 23: "IQ3_XXS", 24: "IQ1_S", 25: "IQ4_NL",
    26: "IQ3_S", 27: "IQ3_M", 28: "IQ2_S", 29: "IQ2_M", 30: "IQ4_XS", 31: "IQ1_M", 32: "BF16", 36: "TQ1_0",
    37: "TQ2_0", 38: "MXFP4_MOE", 39: "NVFP4", 40: "Q1_0", 41: "Q2_0",
}  # fmt: skip
"""``general.file_type`` (``LlamaFileType``) -> the name that stands in file names."""

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9


@dataclass(frozen=True, slots=True)
class Header:
    """What one GGUF file says of itself."""

    version: int
    metadata: Mapping[str, object]
    """Scalars, strings and short arrays of numbers; longer arrays appear as :class:`Long`."""
    elements: Mapping[str, int]
    """Elements by tensor type: ``{"Q4_K": ..., "F32": ...}``; ``type 99`` where the number is unknown."""
    tensors: int
    bytes: int
    """Of tensor data, by block sizes; tensors of unknown types not counted."""
    extent: int
    """Where the last tensor ends in the file, in bytes; 0 when a type is unknown."""
    listed: tuple[Tensor, ...] | None = None
    """Every tensor; None when a type is unknown."""

    def text(self, key: str) -> str | None:
        """A metadata string, None where it is absent or of another type."""
        value = self.metadata.get(key)
        return value if isinstance(value, str) else None

    def number(self, key: str) -> int | None:
        """A metadata integer, None where it is absent or of another type."""
        value = self.metadata.get(key)
        return value if type(value) is int else None


@dataclass(frozen=True, slots=True)
class Long:
    """An array or string that was walked over: how many items it has."""

    length: int


def header(read: Read, file_size: int | None) -> Header:
    """Read a header. Raises :class:`Unreadable` on anything that is not a sound GGUF file."""
    stream = _Stream(read, file_size)
    version = _version(stream)
    tensors, entries = stream.number("Q"), stream.number("Q")
    if tensors > MAX_TENSORS or entries > MAX_ENTRIES:
        raise Unreadable(f"claims {tensors} tensors and {entries} metadata entries: not a sound header")
    metadata: dict[str, object] = {}
    for _ in range(entries):
        key = stream.name("a metadata key", 65_535)
        if key in metadata:
            raise Unreadable(f"metadata key {printable(key)} stands twice")
        metadata[key] = _value(stream, stream.number("I"))
    alignment = metadata.get("general.alignment", 32)
    if type(alignment) is not int or not 0 < alignment <= 1 << 20 or alignment & (alignment - 1):
        raise Unreadable(f"general.alignment is {printable(repr(alignment), 40)}, not a power of two")
    return _tensors(stream, version, metadata, tensors, alignment)


def _version(stream: _Stream) -> int:
    magic = stream.take(4)
    refuse_pointer(magic + stream.peek(60))
    if magic != b"GGUF":
        raise Unreadable(f"starts with {magic!r}, not with GGUF")
    raw = stream.take(4)
    version = int.from_bytes(raw, "little")
    if version in {2, 3}:
        return version
    if int.from_bytes(raw, "big") in {2, 3}:
        raise Unreadable("a big-endian GGUF file, which this reader does not know")
    raise Unreadable(f"GGUF version {version}, which this reader does not know (2 and 3)")


def _value(stream: _Stream, kind: int) -> object:
    if kind in _SCALARS:
        return stream.number(_SCALARS[kind])
    if kind == _STRING:
        return stream.string("a metadata string", MAX_HEADER)
    if kind == _ARRAY:
        return _array(stream, 0)
    raise Unreadable(f"unknown metadata type {kind}")


def _array(stream: _Stream, depth: int) -> object:
    item, count = stream.number("I"), stream.number("Q")
    if item in _SCALARS:
        return stream.row(_SCALARS[item], count)
    if item == _STRING:
        stream.skip_strings(count)
    elif item == _ARRAY:
        if depth > 3 or count > MAX_NESTED:
            raise Unreadable(f"{count} arrays inside an array, {depth + 1} deep")
        stream.nested += count
        if stream.nested > MAX_NESTED:
            raise Unreadable(f"more than {MAX_NESTED} arrays inside arrays")
        for _ in range(count):
            _array(stream, depth + 1)
    else:
        raise Unreadable(f"unknown metadata type {item}")
    return Long(count)


def _tensors(
    stream: _Stream, version: int, metadata: Mapping[str, object], count: int, alignment: int
) -> Header:
    elements: dict[str, int] = {}
    listed: list[Tensor] = []
    size = end = 0
    unknown = False
    for _ in range(count):
        name = printable(stream.name("a tensor name", 1024))
        dims = [stream.number("Q") for _ in range(stream.dimensions(name))]
        kind, offset = stream.number("I"), stream.number("Q")
        tensor = Tensor(name, tuple(reversed(dims)), TYPES.get(kind, f"type {kind}"))
        number = tensor.elements
        if number >= 1 << 63 or offset >= 1 << 63 or offset % alignment:
            raise Unreadable(f"tensor {name} has an impossible shape or offset")
        block = BLOCKS.get(tensor.dtype, (1, 0))[0]
        if dims and dims[0] % block:
            raise Unreadable(
                f"tensor {name}: rows of {dims[0]} do not fill blocks of {block} ({tensor.dtype})"
            )
        unknown |= kind not in TYPES
        elements[tensor.dtype] = elements.get(tensor.dtype, 0) + number
        taken = tensor.bytes if kind in TYPES else 0
        size += taken
        end = max(end, offset + taken)
        listed.append(tensor)
    start = -(-stream.at // alignment) * alignment
    extent = 0 if unknown or not count else start + end
    if stream.size is not None and extent > stream.size:
        raise Unreadable(f"truncated: {stream.size} bytes, the header describes {extent}")
    return Header(version, metadata, elements, count, size, extent, None if unknown else tuple(listed))


class _Stream:
    """The file from its start, in growing pieces: a header may end after a page or after megabytes."""

    def __init__(self, read: Read, size: int | None) -> None:
        self.size = size
        self.at = 0
        self._read = read
        self._base = 0
        self._buffer = b""
        self._piece = 256 << 10
        self._text = MAX_TEXT
        self._numbers = MAX_NUMBERS
        self.nested = 0

    def need(self, count: int) -> None:
        """Refuse a length that the file cannot hold."""
        end = self.at + count
        if end > MAX_HEADER:
            raise Unreadable(
                f"the header is longer than the {MAX_HEADER} bytes that are read, or claims to be"
            )
        if self.size is not None and end > self.size:
            raise Unreadable(f"the header ends at byte {end}, the file has {self.size}: truncated")

    def peek(self, count: int) -> bytes:
        """Up to ``count`` bytes from here on, without moving."""
        if self.at + count > self._base + len(self._buffer):
            rest = self._buffer[self.at - self._base :] if self.at >= self._base else b""
            start = self.at + len(rest)
            more = self._read(start, start + max(count - len(rest), self._piece))
            self._base, self._buffer = self.at, rest + more
            self._piece = min(self._piece * 2, 8 << 20)
        begin = self.at - self._base
        return self._buffer[begin : begin + count]

    def take(self, count: int) -> bytes:
        """Exactly ``count`` bytes."""
        self.need(count)
        data = self.peek(count)
        if len(data) < count:
            raise Unreadable(f"the file ends at byte {self.at + len(data)}, inside its header: truncated")
        self.at += count
        return data

    def skip(self, count: int) -> None:
        """Move on without keeping the bytes."""
        self.need(count)
        self.at += count
        if self.at > self._base + len(self._buffer):
            self._base, self._buffer = self.at, b""

    def number(self, code: str) -> int:
        """One number (or truth value, or float) of a ``struct`` code."""
        return struct.unpack("<" + code, self.take(struct.calcsize("<" + code)))[0]  # type: ignore[no-any-return]

    def row(self, code: str, count: int) -> object:
        """Numbers; a long row of them is walked over."""
        size = struct.calcsize("<" + code)
        self.need(count * size)
        if count > min(MAX_ROW, self._numbers):
            self.skip(count * size)
            return Long(count)
        self._numbers -= count
        return list(struct.unpack(f"<{count}{code}", self.take(count * size)))

    def string(self, what: str, limit: int) -> str | Long:
        """A string; longer than ``limit`` bytes is an error, more than may be kept is walked over."""
        length = self.number("Q")
        if length > limit:
            raise Unreadable(f"{what} claims {length} bytes")
        self.need(length)
        if length > self._text:
            self.skip(length)
            return Long(length)
        self._text -= length
        return self.take(length).decode("utf-8", "replace")

    def name(self, what: str, limit: int) -> str:
        """A string that names something."""
        found = self.string(what, limit)
        if isinstance(found, Long):
            raise Unreadable(f"more than {MAX_TEXT} bytes of names and texts")
        return found

    def skip_strings(self, count: int) -> None:
        """Walk over strings: vocabularies have hundreds of thousands of them."""
        self.need(count * 8)
        length_at = struct.Struct("<Q").unpack_from
        while count:
            self.need(8)
            if len(self.peek(8)) < 8:
                raise Unreadable(f"the file ends at byte {self.at}, inside its header: truncated")
            buffer, at = self._buffer, self.at - self._base
            last = len(buffer) - 8
            while count and at <= last:
                at += 8 + length_at(buffer, at)[0]
                count -= 1
            self.skip(self._base + at - self.at)

    def dimensions(self, name: str) -> int:
        """How many dimensions a tensor has."""
        count = self.number("I")
        if count > 4:
            raise Unreadable(f"tensor {name} has {count} dimensions, GGUF knows up to 4")
        return count
