"""The header of a safetensors file: names, dtypes and shapes of its tensors, without their data.

Format (https://github.com/huggingface/safetensors#format): eight bytes of little-endian header length, a JSON
object, then the data. The rules enforced are those of the reference reader (``SafeTensors::read_metadata``
and ``Metadata::validate``): known dtypes, extents that cover the data without gap or overlap, and a file that
ends where its last tensor ends.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TypeGuard

from canserve.probes.model.cursor import Cursor
from canserve.probes.model.documents import Unreadable, refuse_pointer
from canserve.subjects.tensor import BITS, Tensor
from canserve.trees.names import printable

MAX_HEADER = 32 << 20
"""Longest header that is read; the reference reader stops at 100 MB, the largest real shard seen has 4 MB."""

Logical = Callable[[str, str, int], int]
"""Name, dtype and stored elements of a tensor -> the parameters it stands for."""


@dataclass(slots=True)
class Tally:
    """Running totals over the headers of one model."""

    by_dtype: dict[str, int] = field(default_factory=dict)
    total: int = 0
    bytes: int = 0
    tensors: int = 0
    mtp_tensors: int = 0
    """Tensors whose name says that they belong to multi-token prediction."""
    alike: dict[tuple[str, str, tuple[int, ...]], int] = field(default_factory=dict)
    """Copies by name without experts' numbers, dtype and shape: a model of 600 GB has 100 000 tensors, and
    2 000 of these. Not added to beyond ``MAX_KINDS``."""

    def add(self, tensor: Tensor, logical: Logical) -> None:
        """Count a tensor, or several alike."""
        name, dtype, copies = tensor.name, tensor.dtype, tensor.copies
        elements = prod(tensor.shape)
        self.by_dtype[dtype] = self.by_dtype.get(dtype, 0) + elements * copies
        self.total += logical(name, dtype, elements) * copies
        self.bytes += elements * BITS[dtype] // 8 * copies
        self.tensors += copies
        self.mtp_tensors += copies if _MTP.search(name) else 0
        if len(self.alike) <= MAX_KINDS:
            key = _EXPERT.sub("*", name), dtype, tensor.shape
            self.alike[key] = self.alike.get(key, 0) + copies

    def merge(self, other: Tally) -> None:
        """Add another file's totals."""
        for dtype, elements in other.by_dtype.items():
            self.by_dtype[dtype] = self.by_dtype.get(dtype, 0) + elements
        self.total += other.total
        self.bytes += other.bytes
        self.tensors += other.tensors
        self.mtp_tensors += other.mtp_tensors
        for key, copies in other.alike.items():
            if key in self.alike or len(self.alike) <= MAX_KINDS:
                self.alike[key] = self.alike.get(key, 0) + copies

    def listed(self) -> Sequence[Tensor] | None:
        """The tensors, in the order of the files; None: too many kinds of them were there to keep."""
        if len(self.alike) > MAX_KINDS:
            return None
        return [Tensor(name, shape, dtype, copies) for (name, dtype, shape), copies in self.alike.items()]


MAX_KINDS = 50_000
"""Tensors that are told apart; the most seen in a real model are 4 000."""
_MTP = re.compile(r"(?:^|[._])(?:mtp|nextn)(?:[._]|$)")
_EXPERT = re.compile(r"(?<=experts\.)\d{1,6}(?=\.)")


def header_length(head: bytes, file_size: int | None) -> int:
    """The first eight bytes -> length of the JSON that follows. Raises Unreadable when it cannot be true."""
    refuse_pointer(head)
    if len(head) < 8:
        raise Unreadable(f"only {len(head)} bytes: too short for a safetensors header")
    length = int.from_bytes(head[:8], "little")
    if file_size is not None and length > file_size - 8:
        raise Unreadable(
            f"the header claims {length} bytes, the file has {file_size}: truncated or not safetensors"
        )
    if length > MAX_HEADER:
        raise Unreadable(f"the header claims {length} bytes, more than the {MAX_HEADER} that are read")
    return length


def tally(data: bytes, file_size: int | None, logical: Logical) -> Tally:
    """Count the tensors of one header (its JSON text, without the length). Raises :class:`Unreadable`.

    ``file_size`` in bytes, or None where it is not known: then truncation cannot be seen.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unreadable(f"the header is not UTF-8 at byte {error.start}") from None
    one = Tally()
    begins, ends = array("Q"), array("Q")
    cursor = Cursor(text)
    for name in cursor.members():
        if name == "__metadata__":
            for _ in cursor.members():
                cursor.string()
            continue
        tensor, begin, end = _entry(name, cursor.flat_object())
        one.add(tensor, logical)
        begins.append(begin)
        ends.append(end)
    cursor.finish()
    _refuse_gaps(begins, ends, None if file_size is None else file_size - 8 - len(data))
    return one


def _entry(name: str, entry: dict[str, object]) -> tuple[Tensor, int, int]:
    """One tensor's entry -> the tensor, and where its data begins and ends."""
    shown = printable(name)
    dtype, shape, offsets = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in BITS:
        raise Unreadable(f"tensor {shown} has the unknown dtype {printable(repr(dtype), 40)}")
    if not _sizes(shape) or not _sizes(offsets) or len(offsets) != 2:
        raise Unreadable(f"tensor {shown} has a shape or offsets that are no sizes")
    begin, end = offsets
    elements = prod(shape)
    if elements * BITS[dtype] != (end - begin) * 8:
        raise Unreadable(f"tensor {shown}: shape and dtype do not fill bytes {begin} to {end}")
    return Tensor(name, tuple(shape), dtype), begin, end


def _sizes(value: object) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(type(item) is int and 0 <= item < 1 << 63 for item in value)


def _refuse_gaps(begins: array[int], ends: array[int], data_size: int | None) -> None:
    """The extents must follow each other from 0 to the end of the file; writers list them in this order."""
    at = 0
    in_order = all(end <= begin for end, begin in zip(ends, begins[1:], strict=False))
    pairs = zip(begins, ends, strict=True)
    for begin, end in pairs if in_order else sorted(pairs):
        if begin != at:
            raise Unreadable(f"tensors overlap or leave a gap at byte {min(at, begin)} of the data")
        at = end
    if data_size is not None and at != data_size:
        problem = "truncated" if at > data_size else "longer than its header says"
        raise Unreadable(f"the file is {problem}: {data_size} bytes of data, the header describes {at}")
