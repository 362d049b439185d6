"""ELF files, CUDA's fat binaries and ROCm's bundles, written by hand for the tests of reading them."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

PAYLOAD = 104
KINDS = {"compute": 1, "sm": 2}
FLAGS = {"a": 0x100000, "f": 0x200000}


class Bytes:
    """A file in memory that counts what is read of it."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.size = len(data)
        self.asked = 0

    def read(self, start: int, end: int) -> bytes:
        self.asked += end - start
        return self.data[start:end]


def entry(target: str, isa: str = "8.4", payload: int = PAYLOAD) -> bytes:
    """One entry of a fat binary: ``sm_90a``, ``compute_80``."""
    kind, number = target.split("_")
    flags = FLAGS.get(number[-1], 0)
    major, minor = map(int, isa.split(".")) if kind == "compute" else (0, 0)
    head = struct.pack("<HHIQIIHHIQQ", KINDS[kind], 0x101, 64, payload, 0, 0, minor, major,
                       int(number.rstrip("af")), 0, flags | 1)  # fmt: skip
    return head.ljust(64, b"\0") + b"\x7f" * payload


def container(*targets: str, isa: str = "8.4") -> bytes:
    """A fat binary of one translation unit."""
    body = b"".join(entry(target, isa) for target in targets)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def bundle(*targets: str, align: int = 4096) -> bytes:
    """An offload bundle of one translation unit, padded as linkers do."""
    names = ["host-x86_64-unknown-linux-gnu-", *(f"hipv4-amdgcn-amd-amdhsa--{target}" for target in targets)]
    table = sum(24 + len(name) for name in names) + 32
    head = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(names))
    code = b""
    for index, name in enumerate(names):
        size = 64 if index else 0
        head += struct.pack("<QQQ", table + len(code), size, len(name)) + name.encode()
        code += b"\x7fELF".ljust(size, b"\1") if size else b""
    data = head + code
    return data.ljust(-(-len(data) // align) * align, b"\0")


@dataclass
class Shared:
    """A shared object in the making."""

    sections: dict[str, bytes] = field(default_factory=dict)
    needed: Sequence[str] = ()
    versions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By library: the versions of symbols that are needed of it."""
    machine: int = 183
    paths: Mapping[int, str] = field(default_factory=dict)
    """By tag of the dynamic section (15: RPATH, 29: RUNPATH), the folders."""

    def made(self) -> bytes:
        """Its bytes: header, contents, section headers at the end."""
        names, strings = _Strings(), _Strings()
        tagged = [*((1, name) for name in self.needed), *self.paths.items()]
        dynamic = b"".join(struct.pack("<qQ", tag, strings.at(name)) for tag, name in tagged) + bytes(16)
        needs = _needs(self.versions, strings)
        rows: list[tuple[str, int, bytes, int, int]] = [
            ("", 0, b"", 0, 0),
            (".dynstr", 3, bytes(strings.data), 0, 0),
            (".dynamic", 6, dynamic, 1, 0),
            (".gnu.version_r", 0x6FFFFFFE, needs, 1, len(self.versions)),
            *((name, 1, data, 0, 0) for name, data in self.sections.items()),
        ]
        rows = [row for row in rows if row[0] != ".gnu.version_r" or needs]
        placed, body = [], bytearray(64)
        for name, kind, data, link, info in rows:
            body += bytes(-len(body) % 16)
            placed.append((names.at(name), kind, len(body), len(data), link, info))
            body += data
        position = names.at(".shstrtab")
        placed.append((position, 3, len(body), len(names.data), 0, 0))
        body += names.data
        body += bytes(-len(body) % 8)
        table = len(body)
        for name_at, kind, start, size, link, info in placed:
            body += struct.pack("<IIQQQQIIQQ", name_at, kind, 0, 0, start, size, link, info, 8, 0)
        ident = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
        body[:64] = ident + struct.pack("<HHIQQQIHHHHHH", 3, self.machine, 1, 0, 0, table, 0, 64, 0, 0,
                                        64, len(placed), len(placed) - 1)  # fmt: skip
        return bytes(body)


class _Strings:
    def __init__(self) -> None:
        self.data = bytearray(1)

    def at(self, text: str) -> int:
        found = self.data.find(b"\0" + text.encode() + b"\0") + 1
        if found == 0 and text:
            found = len(self.data)
            self.data += text.encode() + b"\0"
        return found if text else 0


def _needs(versions: Mapping[str, Sequence[str]], strings: _Strings) -> bytes:
    out = b""
    for index, (library, names) in enumerate(versions.items()):
        last = index == len(versions) - 1
        out += struct.pack(
            "<HHIII", 1, len(names), strings.at(library), 16, 0 if last else 16 + 16 * len(names)
        )
        for number, name in enumerate(names):
            ahead = 0 if number == len(names) - 1 else 16
            out += struct.pack("<IHHII", 0, 0, number + 2, strings.at(name), ahead)
    return out


def cuda_object(
    *units: Sequence[str], needed: Sequence[str] = ("libcudart.so.12",), libc: str = "2.28", isa: str = "8.4"
) -> bytes:
    """An extension whose translation units are compiled for these targets."""
    code = b"".join(container(*unit, isa=isa) for unit in units)
    sections = {".nv_fatbin": code} if code else {".text": b"\x90"}
    versions = {"libc.so.6": ["GLIBC_2.2.5", f"GLIBC_{libc}"], "libstdc++.so.6": ["GLIBCXX_3.4.30"]}
    return Shared(sections, [*needed, "libc.so.6"], versions).made()
