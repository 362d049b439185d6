"""ELF shared objects, little-endian and 64 bits wide, by small reads: sections, linked libraries, libc versions.

Read here and not by a library: files have gigabytes and may be hostile, so that every read and every loop has a
bound. Format: System V ABI, chapters 4 and 5; symbol versions: Linux Standard Base, section 10.7.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

MAGIC = b"\x7fELF"
MAX_SECTIONS = 1 << 16
MAX_NAMES = 8 << 20
"""Bytes of the section names; real files have kilobytes."""
MAX_TABLE = 1 << 20
"""Bytes of the dynamic section, and of the version needs."""
MAX_NAME = 256
MAX_PATHS = 8192
"""Characters of the folders that a file has its libraries looked for in; torch has 700."""
CPUS = {62: "x86_64", 183: "aarch64", 21: "ppc64le", 22: "s390x", 243: "riscv64", 258: "loongarch64"}
DYNAMIC, VERSION_NEEDS = 6, 0x6FFFFFFE
"""Kinds of sections."""
_NEEDED, _RPATH, _RUNPATH = 1, 15, 29
_NOTHING_THERE = 8
"""Kind of a section without bytes in the file (``.bss``)."""
_SECTION = struct.Struct("<IIQQQQIIQQ")


class FormError(Exception):
    """A file that is not what its headers say, or larger than any real one; carries why."""


class File(Protocol):
    """Bytes by position."""

    @property
    def size(self) -> int:
        """In bytes."""
        ...

    def read(self, start: int, end: int) -> bytes:
        """These bytes, fewer at the end of the file. Raises TreeError."""
        ...


@dataclass(frozen=True, slots=True)
class Section:
    """One section of a file."""

    name: str
    kind: int
    start: int
    end: int
    link: int
    """Number of another section: the names that it uses."""
    info: int


@dataclass(frozen=True, slots=True)
class Elf:
    """The headers of a shared object."""

    cpu: str
    sections: tuple[Section, ...]

    def named(self, name: str) -> tuple[Section, ...]:
        """The sections of that name."""
        return tuple(section for section in self.sections if section.name == name)


def is_elf(file: File) -> bool:
    """Whether it begins as every ELF file does; nothing else is ever loaded."""
    return file.read(0, 4) == MAGIC


def exactly(file: File, start: int, end: int) -> bytes:
    """Bytes that must be there. Raises FormError."""
    if not 0 <= start <= end <= file.size:
        raise FormError(f"a header names bytes {start} to {end}; the file has {file.size}")
    data = file.read(start, end)
    if len(data) != end - start:
        raise FormError("it ends before its size")
    return data


def read_elf(file: File) -> Elf:
    """The headers. Raises FormError, and TreeError where bytes cannot be had."""
    head = exactly(file, 0, min(64, file.size))
    if len(head) < 64 or head[:4] != MAGIC:
        raise FormError("not an ELF file")
    if head[4] != 2 or head[5] != 1:
        raise FormError("an ELF file that is not little-endian with 64 bits")
    machine = struct.unpack_from("<H", head, 18)[0]
    table = struct.unpack_from("<Q", head, 40)[0]
    each, count, names = struct.unpack_from("<HHH", head, 58)
    cpu = CPUS.get(machine, f"ELF machine {machine}")
    if table == 0:
        raise FormError("its section headers were stripped off")
    if each != _SECTION.size:
        raise FormError(f"section headers of {each} bytes")
    first = _SECTION.unpack(exactly(file, table, table + each))
    count = count or first[5]  # where the number does not fit into the file's header
    names = first[6] if names == 0xFFFF else names
    if not 0 < count <= MAX_SECTIONS or names >= count:
        raise FormError(f"{count} sections, their names in number {names}")
    rows = list(_SECTION.iter_unpack(exactly(file, table, table + count * each)))
    start, size = rows[names][4], rows[names][5]
    if size > MAX_NAMES:
        raise FormError(f"{size} bytes of section names")
    text = exactly(file, start, start + size)
    return Elf(cpu, tuple(_section(row, text, file.size) for row in rows))


def _section(row: Sequence[int], names: bytes, size: int) -> Section:
    name, kind, _, _, start, length, link, info, _, _ = row
    if kind in {0, _NOTHING_THERE}:
        length = 0
    elif start + length > size:
        raise FormError(f"a section of bytes {start} to {start + length}; the file has {size}")
    return Section(_text(names[name : name + MAX_NAME]), kind, start, start + length, link, info)


def needed(elf: Elf, file: File) -> tuple[str, ...]:
    """The libraries it links against, in its order. Raises FormError."""
    return tuple(dict.fromkeys(name for tag, name in _dynamic(elf, file) if tag == _NEEDED))


def searched(elf: Elf, file: File) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Folders that it has its libraries looked for in, as ``DT_RPATH`` and as ``DT_RUNPATH``. Raises FormError."""
    named = list(_dynamic(elf, file))
    rpath, runpath = (":".join(text for tag, text in named if tag == kind) for kind in (_RPATH, _RUNPATH))
    return tuple(filter(None, rpath.split(":"))), tuple(filter(None, runpath.split(":")))


def _dynamic(elf: Elf, file: File) -> Iterator[tuple[int, str]]:
    """Names in the dynamic section, with what each is."""
    for section in elf.sections:
        if section.kind != DYNAMIC:
            continue
        names = _linked(elf, section)
        for tag, value in struct.iter_unpack("<qQ", _table(file, section, 16)):
            if tag == 0:
                break
            if tag in {_NEEDED, _RPATH, _RUNPATH}:
                most = MAX_NAME if tag == _NEEDED else MAX_PATHS
                yield tag, _name(file, names, value, most)


def libc(elf: Elf, file: File) -> str | None:
    """The newest version of the GNU C library that a symbol asks for. Raises FormError."""
    versions = [name for section in elf.sections if section.kind == VERSION_NEEDS
                for name in _needs(elf, section, file)]  # fmt: skip
    numbers = [tuple(map(int, match[1].split(".")))
               for name in versions if (match := re.fullmatch(r"GLIBC_(\d{1,3}(?:\.\d{1,3}){1,2})", name))]  # fmt: skip
    return ".".join(map(str, max(numbers))) if numbers else None


def _needs(elf: Elf, section: Section, file: File) -> Iterator[str]:
    """Names of the versions that a file needs of others; the records are a chain of chains."""
    table, names = _table(file, section, 1), _linked(elf, section)
    at, budget = 0, len(table) // 16
    while True:
        _, count, _, first, following = _unpack("<HHIII", table, at)
        inner = at + first
        for _ in range(count):
            budget -= 1
            if budget < 0:
                raise FormError("more version needs than its section holds")
            _, _, _, name, ahead = _unpack("<IHHII", table, inner)
            yield _name(file, names, name)
            if ahead == 0:
                break
            inner += ahead
        if following == 0 or budget <= 0:
            return
        at += following
        budget -= 1


def _unpack(form: str, data: bytes, at: int) -> tuple[int, ...]:
    if at + struct.calcsize(form) > len(data):
        raise FormError("a record that reaches out of its section")
    return struct.unpack_from(form, data, at)


def _table(file: File, section: Section, each: int) -> bytes:
    size = section.end - section.start
    if size > MAX_TABLE:
        raise FormError(f"{section.name} has {size} bytes")
    return exactly(file, section.start, section.start + size - size % each)


def _linked(elf: Elf, section: Section) -> Section:
    if section.link >= len(elf.sections):
        raise FormError(f"{section.name} names a section that is not there")
    return elf.sections[section.link]


def _name(file: File, names: Section, offset: int, most: int = MAX_NAME) -> str:
    start = names.start + offset
    if not names.start <= start < names.end:
        raise FormError("a name outside of its section")
    return _text(exactly(file, start, min(start + most, names.end)))


def _text(data: bytes) -> str:
    """A name up to its end mark, printable."""
    name = data.partition(b"\0")[0].decode("ascii", "replace")
    return "".join(c if c.isprintable() else "?" for c in name)
