"""Small archives made for tests: wheels as installers write them, and zip files no honest tool writes."""

from __future__ import annotations

import io
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from canserve.trees.archive.blob import FileBlob
from canserve.trees.archive.zip import ZipTree


def wheel_files(
    name: str, version: str, files: Mapping[str, str], requires: tuple[str, ...] = ()
) -> dict[str, str]:
    """Members of a wheel: the files, and metadata that go with them."""
    info = f"{name}-{version}.dist-info"
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", "Requires-Python: >=3.9"]
    lines += [f"Requires-Dist: {line}" for line in requires]
    return {
        **files,
        f"{info}/METADATA": "\n".join(lines) + "\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": "".join(f"{path},,\n" for path in files),
    }


def zipped(files: Mapping[str, str | bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """An honest zip archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return buffer.getvalue()


def tarred(files: Mapping[str, str | bytes], mode: str = "w:gz") -> bytes:
    """An honest tar archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:  # type: ignore[call-overload]
        for path, text in files.items():
            data = text.encode() if isinstance(text, str) else text
            info = tarfile.TarInfo(path)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def zip_tree(folder: Path, data: bytes) -> ZipTree:
    """Open bytes as a zip archive on disk. Raises TreeError."""
    path = folder / "archive.zip"
    path.write_bytes(data)
    return ZipTree(FileBlob(path, "archive.zip"), "archive.zip", "zip archive")


@dataclass
class Lie:
    """One member, and what its records claim where that differs from the truth."""

    name: bytes
    data: bytes
    method: int = 8
    flags: int = 0
    size: int | None = None
    packed: int | None = None
    crc: int | None = None
    offset: int | None = None
    local_name: bytes | None = None
    extra: bytes = b""


@dataclass
class Ending:
    """What the end record claims where that differs from the truth."""

    count: int | None = None
    length: int | None = None
    start: int | None = None
    comment: bytes = b""
    cut: int = 0


def lying_zip(members: list[Lie], ending: Ending | None = None) -> bytes:
    """A zip archive written field by field."""
    end = ending or Ending()
    body, central = bytearray(), bytearray()
    for member in members:
        packed = _deflated(member.data) if member.method == 8 else member.data
        crc = zlib.crc32(member.data) if member.crc is None else member.crc
        sizes = (
            len(packed) if member.packed is None else member.packed,
            len(member.data) if member.size is None else member.size,
        )
        local = member.name if member.local_name is None else member.local_name
        offset = len(body) if member.offset is None else member.offset
        body += struct.pack(
            "<4s5H3I2H", b"PK\3\4", 20, member.flags, member.method, 0, 0, crc, *sizes, len(local), 0
        )
        body += local + packed
        central += struct.pack(
            "<4s6H3I5H2I", b"PK\1\2", 20, 20, member.flags, member.method, 0, 0, crc, *sizes,
            len(member.name), len(member.extra), 0, 0, 0, 0, offset,
        )  # fmt: skip
        central += member.name + member.extra
    count = len(members) if end.count is None else end.count
    record = struct.pack(
        "<4s4H2IH", b"PK\5\6", 0, 0, count, count,
        len(central) if end.length is None else end.length,
        len(body) if end.start is None else end.start,
        len(end.comment),
    )  # fmt: skip
    whole = bytes(body + central + record) + end.comment
    return whole[: len(whole) - end.cut]


def _deflated(data: bytes) -> bytes:
    machine = zlib.compressobj(9, zlib.DEFLATED, -15)
    return machine.compress(data) + machine.flush()


def zeros(count: int) -> bytes:
    """Deflated zeros, about a thousandth of their number."""
    machine = zlib.compressobj(9, zlib.DEFLATED, -15)
    pieces = list(_pieces(machine, count))
    return b"".join(pieces)


def _pieces(machine: zlib._Compress, count: int) -> Iterator[bytes]:
    for _ in range(count >> 20):
        yield machine.compress(bytes(1 << 20))
    yield machine.flush()
