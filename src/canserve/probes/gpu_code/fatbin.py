"""CUDA's fat binaries: containers of machine code and PTX for several targets, one for each translation unit.

Only headers are read. The form is not documented; it was found by compiling for 21 targets (7.5 to 12.1, plain,
``a`` and ``f``) and agrees with what ``cuobjdump --list-elf --list-ptx`` prints.

container: u32 magic, u16 version 1, u16 bytes of this header (16), u64 bytes of entries
entry: u16 kind, u16 0x101, u32 bytes of this header, u64 bytes of payload with padding, u32, u32, u16 minor and
u16 major of the PTX language, u32 target, u64, u64 flags ...
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from canserve.probes.gpu_code.elf import File, FormError, Section, exactly

SECTION = ".nv_fatbin"
"""``__nv_relfatbin`` holds parts that were linked into what stands here, and is not loaded itself."""
MAGIC = 0xBA55ED50
MAX_ENTRIES = 1 << 18
"""Of one file; torch has 3,000."""
_CONTAINER = struct.Struct("<IHHQ")
_ENTRY = struct.Struct("<HHIQIIHHIQQ")
_PTX, _MACHINE_CODE = 1, 2
_ARCHITECTURE, _FAMILY = 0x100000, 0x200000
"""Flags of targets ending in ``a`` and ``f``."""
_WINDOW = 1 << 10
_ZEROS = 1 << 20


@dataclass(frozen=True, slots=True)
class Entry:
    """One target's code."""

    target: str
    """``sm_90a``, ``compute_80``; ``kind16_90`` for what is neither machine code nor PTX."""
    isa: str | None
    """Version of the PTX language; None: it is not PTX."""


def units(file: File, section: Section) -> Iterator[tuple[Entry, ...]]:
    """The entries of each container. Raises FormError."""
    window = _Window(file)
    at, left = section.start, MAX_ENTRIES
    while (at := _next(window, at, section.end)) < section.end:
        magic, version, header, size = _CONTAINER.unpack(window.take(at, _CONTAINER.size))
        if magic != MAGIC or version != 1 or header != _CONTAINER.size:
            raise FormError(f"unknown form: no fat binary at byte {at} of {section.name}")
        start, end = at + header, at + header + size
        if end > section.end:
            raise FormError(f"a fat binary of {size} bytes at byte {at}, where its section has fewer")
        entries = tuple(_entries(window, start, end, left))
        left -= len(entries) + 1
        yield entries
        at = end


def _entries(window: _Window, start: int, end: int, most: int) -> Iterator[Entry]:
    at = start
    while at < end:
        if end - at < _ENTRY.size:
            raise FormError(f"an entry of a fat binary is cut short at byte {at}")
        kind, form, header, payload, _, _, minor, major, number, _, flags = _ENTRY.unpack(
            window.take(at, _ENTRY.size)
        )
        if form != 0x101 or header < _ENTRY.size or not 10 <= number <= 999:
            raise FormError(f"unknown form: an entry of a fat binary at byte {at}")
        most -= 1
        if most < 0:
            raise FormError(f"more than {MAX_ENTRIES} entries in fat binaries")
        yield Entry(_target(kind, number, flags), f"{major}.{minor}" if kind == _PTX else None)
        at += header + payload
    if at != end:
        raise FormError(f"an entry of a fat binary ends at byte {at}, the fat binary at {end}")


def _target(kind: int, number: int, flags: int) -> str:
    suffix = "a" if flags & _ARCHITECTURE else "f" if flags & _FAMILY else ""
    prefix = {_PTX: "compute_", _MACHINE_CODE: "sm_"}.get(kind, f"kind{kind}_")
    return f"{prefix}{number}{suffix}"


def _next(window: _Window, at: int, end: int) -> int:
    """Where the next container begins: zeros pad from one to the next."""
    while at < end:
        if any(window.take(at, min(8, end - at))):
            return at
        at += 8
        if at < end and not window.holds(at):
            at = skip_zeros(window.file, at, end) & ~7
    return end


def skip_zeros(file: File, at: int, end: int) -> int:
    """The first byte that is not zero, or the end."""
    while at < end:
        data = exactly(file, at, min(at + _ZEROS, end))
        rest = data.lstrip(b"\0")
        if rest:
            return at + len(data) - len(rest)
        at += len(data)
    return end


class _Window:
    """Small reads that lie near each other, as one."""

    def __init__(self, file: File) -> None:
        self.file = file
        self._start = 0
        self._data = b""

    def holds(self, at: int) -> bool:
        return self._start <= at < self._start + len(self._data)

    def take(self, at: int, count: int) -> bytes:
        if not self._start <= at <= at + count <= self._start + len(self._data):
            self._start = at
            self._data = exactly(self.file, at, min(at + _WINDOW, self.file.size))
        data = self._data[at - self._start : at - self._start + count]
        if len(data) < count:
            raise FormError(f"it ends within a header at byte {at}")
        return data
