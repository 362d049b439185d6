"""A believable engine image, made on the spot without an engine: real Python files, noise for all that does not pack.

Its layers in four forms: plain gzip, plain zstd, eStargz and zstd:chunked. Deterministic.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import random
import struct
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Protocol

import zstandard

CHUNK = 4 << 20
MB = 1_000_000


@dataclass(frozen=True)
class Noise:
    """Bytes that do not pack: machine code, as far as a link is concerned."""

    size: int


Content = bytes | Noise


def pieces(name: str, content: Content) -> Iterator[bytes]:
    """A file, chunk by chunk; noise is the same every time."""
    if isinstance(content, bytes):
        yield from (content[at : at + CHUNK] for at in range(0, len(content), CHUNK))
        return
    source = random.Random(name)
    for at in range(0, content.size, CHUNK):
        yield source.randbytes(min(CHUNK, content.size - at))


def size_of(content: Content) -> int:
    return content.size if isinstance(content, Noise) else len(content)


@dataclass
class Blob:
    """A packed layer on the disk."""

    path: Path
    kind: str
    annotations: dict[str, str] = field(default_factory=dict)
    digest: str = ""
    unpacked: str = ""
    """Digest of the layer's archive before it was packed."""
    size: int = 0

    def seal(self) -> Blob:
        with self.path.open("rb") as handle:
            self.digest = f"sha256:{hashlib.file_digest(handle, 'sha256').hexdigest()}"
        self.unpacked = archive_digest(self.path)
        self.size = self.path.stat().st_size
        return self


class Packer(Protocol):
    """Writes a layer in one form, member by member."""

    def header(self, data: bytes) -> None: ...

    def file(self, name: str, size: int, chunks: Iterable[bytes]) -> None: ...

    def finish(self) -> dict[str, str]:
        """Write the end; the annotations of the layer."""
        ...


def pack(path: Path, form: str, files: Mapping[str, Content]) -> Blob:
    """Write a layer, its names sorted as those who pack folders do it."""
    with path.open("wb") as out:
        packer = PACKERS[form](out)
        for name in sorted(files, key=lambda each: each.split("/")):
            info = tarfile.TarInfo(name)
            info.size = size_of(files[name])
            packer.header(info.tobuf(tarfile.PAX_FORMAT))
            packer.file(name, info.size, pieces(name, files[name]))
        annotations = packer.finish()
    packing = "gzip" if form in {"gzip", "estargz"} else "zstd"
    return Blob(path, f"application/vnd.oci.image.layer.v1.tar+{packing}", annotations).seal()


def padding(size: int) -> bytes:
    return b"\0" * (-size % 512)


def member(*data: bytes) -> bytes:
    """One gzip member. Most of it is noise, on which looking for repetitions is lost time."""
    machine = zlib.compressobj(1, zlib.DEFLATED, 31, 9, zlib.Z_DEFAULT_STRATEGY)
    return b"".join(machine.compress(each) for each in data) + machine.flush()


class Gzip:
    def __init__(self, out: IO[bytes]) -> None:
        self._out = out
        self._machine = zlib.compressobj(1, zlib.DEFLATED, 31)

    def header(self, data: bytes) -> None:
        self._out.write(self._machine.compress(data))

    def file(self, name: str, size: int, chunks: Iterable[bytes]) -> None:
        del name
        for chunk in chunks:
            self.header(chunk)
        self.header(padding(size))

    def finish(self) -> dict[str, str]:
        self.header(b"\0" * 1024)
        self._out.write(self._machine.flush())
        return {}


class Zstd(Gzip):
    def __init__(self, out: IO[bytes]) -> None:
        self._out = out
        self._machine: Any = zstandard.ZstdCompressor(level=1).compressobj()


class Stargz:
    """The eStargz format: a gzip member for every chunk, the table of contents as the last file."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out = out
        self._entries: list[dict[str, Any]] = []

    def header(self, data: bytes) -> None:
        self._out.write(member(data))

    def file(self, name: str, size: int, chunks: Iterable[bytes]) -> None:
        whole, entry = hashlib.sha256(), {"name": name, "type": "reg", "size": size}
        self._entries.append(entry)
        first, at = entry, 0
        for chunk in chunks:
            whole.update(chunk)
            place = {"offset": self._out.tell(), "chunkOffset": at, "chunkSize": len(chunk)}
            if at:
                entry = {"name": name, "type": "chunk"}
                self._entries.append(entry)
            entry |= {**place, "chunkDigest": f"sha256:{hashlib.sha256(chunk).hexdigest()}"}
            at += len(chunk)
            self._out.write(member(chunk, padding(size) if at == size else b""))
        first["digest"] = f"sha256:{whole.hexdigest()}"

    def finish(self) -> dict[str, str]:
        table, start = json.dumps({"version": 1, "entries": self._entries}).encode(), self._out.tell()
        info = tarfile.TarInfo("stargz.index.json")
        info.size = len(table)
        self._out.write(member(info.tobuf(tarfile.PAX_FORMAT), table, padding(len(table)), b"\0" * 1024))
        extra = b"SG" + struct.pack("<H", 22) + b"%016xSTARGZ" % start
        self._out.write(b"\x1f\x8b\x08\x04" + b"\0" * 5 + b"\xff" + struct.pack("<H", len(extra)) + extra)
        self._out.write(b"\x01\0\0\xff\xff" + b"\0" * 8)
        return {"containerd.io/snapshot/stargz/toc.digest": f"sha256:{hashlib.sha256(table).hexdigest()}"}


class Chunked:
    """zstd:chunked, as containers/storage writes it: a frame for every chunk, the table in one that is skipped."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out = out
        self._packer = zstandard.ZstdCompressor(level=1)
        self._entries: list[dict[str, Any]] = []

    def header(self, data: bytes) -> None:
        self._out.write(self._packer.compress(data))

    def file(self, name: str, size: int, chunks: Iterable[bytes]) -> None:
        whole, entry = hashlib.sha256(), {"name": name, "type": "reg", "size": size}
        self._entries.append(entry)
        first, at = entry, 0
        for chunk in chunks:
            whole.update(chunk)
            if at:
                entry = {"name": name, "type": "chunk"}
                self._entries.append(entry)
            entry |= {"offset": self._out.tell(), "chunkOffset": at, "chunkSize": len(chunk)}
            at += len(chunk)
            self.header(chunk)
            entry["endOffset"] = self._out.tell()
        self.header(padding(size))
        first["digest"] = f"sha256:{whole.hexdigest()}"

    def finish(self) -> dict[str, str]:
        self.header(b"\0" * 1024)
        table = json.dumps({"version": 1, "entries": self._entries}).encode()
        packed = self._packer.compress(table)
        start = self._out.tell() + 8
        self._out.write(struct.pack("<II", 0x184D2A50, len(packed)) + packed)
        prefix = "io.github.containers.zstd-chunked.manifest-"
        return {
            f"{prefix}position": f"{start}:{len(packed)}:{len(table)}:1",
            f"{prefix}checksum": f"sha256:{hashlib.sha256(packed).hexdigest()}",
        }


PACKERS: dict[str, Callable[[IO[bytes]], Packer]] = {
    "gzip": Gzip,
    "zstd": Zstd,
    "estargz": Stargz,
    "zstd-chunked": Chunked,
}


def record(distribution: str, files: Iterable[str], site: str) -> dict[str, Content]:
    """Metadata of an installation that owns these files."""
    name, _, version = distribution.partition("==")
    info = f"{name}-{version}.dist-info"
    rows = [f"{path},," for path in files] + [f"{info}/METADATA,,", f"{info}/RECORD,,"]
    return {
        f"{site}/{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
        f"{site}/{info}/RECORD": "\n".join(rows).encode(),
    }


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """A packed layer's archive as a stream."""
    with path.open("rb") as handle:
        start = handle.read(4)
        handle.seek(0)
        if start.startswith(b"\x28\xb5\x2f\xfd"):
            stream: Any = zstandard.ZstdDecompressor().stream_reader(handle, read_across_frames=True)
            yield io.BufferedReader(stream, CHUNK)
            return
        with gzip.open(handle) as whole:
            yield whole  # type: ignore[misc]


def archive_digest(path: Path) -> str:
    """What an image's config calls the layer: the digest of its archive before it was packed."""
    digest = hashlib.sha256()
    with opened(path) as stream:
        while chunk := stream.read(CHUNK):
            digest.update(chunk)
    return f"sha256:{digest.hexdigest()}"


def unpacked(path: Path) -> int:
    """Unpack a layer to the end and look at every member, as every way that pulls has to; its bytes."""
    with opened(path) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
        return sum(each.size for each in archive)
