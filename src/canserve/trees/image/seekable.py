"""Layers with a table of contents: eStargz and zstd:chunked. Listed and read by ranges, nothing passed over.

Formats: "eStargz: Standard-Compatible Extensions to Tar.gz Layers" (containerd's stargz-snapshotter) and
zstd:chunked as containers/storage writes it. A table is used only where the manifest names its digest: a table that
nobody vouches for may say anything. Each file is verified by the digest in the table.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from canserve.facts import Missing
from canserve.trees.archive.blob import Blob, Span, passing
from canserve.trees.archive.stream import BROKEN, BombError, told
from canserve.trees.image.layer import FILE, FOLDER, HARD, LINK, SPECIAL, Builder, Layer, Node, clean
from canserve.trees.names import unreadable
from canserve.trees.positions import Use, spooled
from canserve.trees.tree import TreeError

Packing: TypeAlias = Literal["gzip", "zstd"]

STARGZ_DIGEST = "containerd.io/snapshot/stargz/toc.digest"
CHUNKED = ("io.github.containers.zstd-chunked.", "io.containers.zstd-chunked.")
"""Prefixes of the annotations of zstd:chunked; the second one is of older writers."""
FOOTER = 51
"""Bytes at the end of an eStargz blob that say where its table begins."""
MAX_TABLE = 256 << 20
"""Unpacked bytes of a table."""
GAP = 64 << 10
"""Bytes between two wanted files that are fetched along, for the sake of fewer requests."""


MAX_CHUNK = 256 << 20
"""Bytes of one chunk; writers make them of 4 MiB at most."""
BATCH = 16 << 20
"""Packed bytes of a large file that are fetched at once."""


class NoTableError(Exception):
    """The layer has no table of contents that could be used; carries why."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A run of packed bytes that gives a part of a file."""

    span: Span
    skip: int
    """Unpacked bytes before the part."""
    size: int | None
    """Unpacked bytes of the part; None: all the rest."""


@dataclass(slots=True)
class Seekable:
    """A layer whose files can be had one by one."""

    layer: Layer
    packing: Packing
    chunks: Mapping[str, list[Chunk]]
    digests: Mapping[str, str]

    def files(self, blob: Blob, subject: str, paths: Iterable[str]) -> dict[str, bytes | Missing]:
        """The contents of these files, in few requests."""
        wanted = {path: self.chunks.get(path, []) for path in paths}
        spans = sorted({chunk.span for chunks in wanted.values() for chunk in chunks})
        try:
            fetched = _fetched(blob, spans)
        except TreeError as error:
            return dict.fromkeys(wanted, error.missing)
        got: dict[str, bytes | Missing] = {}
        for path, chunks in wanted.items():
            size = self.layer.nodes[path].size
            try:
                data = b"".join(_part(fetched[each.span], each, self.packing, size) for each in chunks)
            except BROKEN as error:
                got[path] = unreadable(subject, path, told(error))
                continue
            digest = self.digests.get(path)
            right = len(data) == size and digest in {None, f"sha256:{hashlib.sha256(data).hexdigest()}"}
            got[path] = data if right else unreadable(subject, path, "not what its layer's table says")
        return got

    def visit(self, blob: Blob, subject: str, paths: Iterable[str], use: Use) -> dict[str, Missing]:
        """Use these files, of any size, one after the other; the answer holds what could not be had."""
        failed: dict[str, Missing] = {}
        once = passing(blob)
        for path in paths:
            size = self.layer.nodes[path].size
            try:
                with spooled(self._pieces(once, path, subject), size, (subject, path)) as file:
                    use(path, file)
            except TreeError as error:
                failed[path] = error.missing
        return failed

    def _pieces(self, blob: Blob, path: str, subject: str) -> Iterator[bytes]:
        """A file chunk by chunk, verified at its end. Raises TreeError."""
        size, found = self.layer.nodes[path].size, hashlib.sha256()
        largest = max((_held(chunk, size) for chunk in self.chunks.get(path, [])), default=0)
        if largest > MAX_CHUNK:
            why = f"a chunk of {largest} bytes, more than the {MAX_CHUNK} that are unpacked at once"
            raise TreeError(unreadable(subject, path, why))
        for chunks in _batches(self.chunks.get(path, [])):
            fetched = _fetched(blob, sorted({chunk.span for chunk in chunks}))
            for chunk in chunks:
                try:
                    piece = _part(fetched[chunk.span], chunk, self.packing, size)
                except BROKEN as error:
                    raise TreeError(unreadable(subject, path, told(error))) from None
                found.update(piece)
                yield piece
        if self.digests.get(path) not in {None, f"sha256:{found.hexdigest()}"}:
            raise TreeError(unreadable(subject, path, "not what its layer's table says"))


def _held(chunk: Chunk, size: int) -> int:
    """Bytes of memory that a chunk of a file of this size may take."""
    return max(chunk.span[1] - chunk.span[0], chunk.skip + (size if chunk.size is None else chunk.size))


def _batches(chunks: Iterable[Chunk]) -> Iterator[list[Chunk]]:
    """Chunks that are fetched together: as many as ``BATCH`` packed bytes hold, at least one."""
    batch: list[Chunk] = []
    room = BATCH
    for chunk in chunks:
        count = chunk.span[1] - chunk.span[0]
        if batch and count > room:
            yield batch
            batch, room = [], BATCH
        batch.append(chunk)
        room -= count
    if batch:
        yield batch


def open_seekable(blob: Blob, annotations: Mapping[str, str]) -> Seekable:
    """Read a layer's table. Raises NoTableError where it has none, and TreeError where it cannot be had."""
    try:
        if (digest := annotations.get(STARGZ_DIGEST)) is not None:
            return _stargz(blob, digest)
        for prefix in CHUNKED:
            if (position := annotations.get(f"{prefix}manifest-position")) is not None:
                return _chunked(blob, position, annotations.get(f"{prefix}manifest-checksum", ""))
    except BROKEN as error:
        raise NoTableError(f"its table of contents cannot be read: {told(error)}") from None
    raise NoTableError("it has no table of contents")


def _stargz(blob: Blob, digest: str) -> Seekable:
    footer = blob.tail(FOOTER)
    found = re.search(rb"([0-9a-f]{16})STARGZ", footer)
    if found is None:
        raise NoTableError("its end names no table of contents")
    start, end = int(found[1], 16), blob.size - FOOTER
    if not 0 < start < end or end - start > MAX_TABLE:
        raise NoTableError("its table of contents lies outside of it")
    table = _inflated(blob.spans([(start, end)])[0], MAX_TABLE)
    with tarfile.open(fileobj=io.BytesIO(table), mode="r:") as archive:
        member = archive.next()
        handle = archive.extractfile(member) if member is not None and member.isreg() else None
        if member is None or handle is None or member.name != "stargz.index.json":
            raise NoTableError("its table of contents has another form")
        data = handle.read()
    return _table(data, digest, "gzip", start)


def _chunked(blob: Blob, position: str, digest: str) -> Seekable:
    import zstandard

    parts = position.split(":")
    if len(parts) != 4 or not all(part.isdecimal() and len(part) < 16 for part in parts):
        raise NoTableError("the place of its table of contents has another form")
    start, length, size, _ = map(int, parts)
    if start + length > blob.size or max(length, size) > MAX_TABLE:
        raise NoTableError("its table of contents lies outside of it")
    packed = blob.spans([(start, start + length)])[0]
    if digest != f"sha256:{hashlib.sha256(packed).hexdigest()}":
        raise NoTableError("its table of contents is not that of its digest")
    try:
        data = zstandard.ZstdDecompressor().decompress(packed, max_output_size=size)
    except zstandard.ZstdError as error:
        raise NoTableError(f"its table of contents cannot be unpacked: {error}") from None
    return _table(data, None, "zstd", start)


@dataclass(slots=True)
class _Reading:
    """A table in the making."""

    builder: Builder = field(default_factory=Builder)
    chunks: dict[str, list[Chunk]] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)


def _table(data: bytes, digest: str | None, packing: Packing, end: int) -> Seekable:
    if digest is not None and digest != f"sha256:{hashlib.sha256(data).hexdigest()}":
        raise NoTableError("its table of contents is not that of its digest")
    try:
        entries = [each for each in json.loads(data)["entries"] if isinstance(each, dict)]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise NoTableError(f"its table of contents has another form: {error}") from None
    starts = sorted({each["offset"] for each in entries if type(each.get("offset")) is int} | {end})
    following = dict(zip(starts, [*starts[1:], end], strict=True))
    reading = _Reading()
    for entry in entries:
        _enter(reading, entry, following)
    layer = reading.builder.layer()
    return Seekable(layer, packing, reading.chunks, reading.digests)


def _enter(reading: _Reading, entry: Mapping[str, Any], following: Mapping[int, int]) -> None:
    name, kind = clean(str(entry.get("name", ""))), entry.get("type")
    if not name:
        return
    if kind == "chunk":
        if name in reading.chunks:
            reading.chunks[name].append(_chunk(entry, following))
        return
    size = entry.get("size", 0)
    if type(size) is not int or size < 0:
        raise BombError(f"{name} has no size")
    target = str(entry.get("linkName", ""))
    node = {
        "reg": Node(FILE, size),
        "dir": Node(FOLDER),
        "symlink": Node(LINK, target=target),
        "hardlink": Node(HARD, target=clean(target)),
    }.get(str(kind), Node(SPECIAL))
    if not reading.builder.put(name, node) or node.kind != FILE:
        return
    reading.chunks[name] = [_chunk(entry, following)] if size else []
    if isinstance(digest := entry.get("digest"), str):
        reading.digests[name] = digest


def _chunk(entry: Mapping[str, Any], following: Mapping[int, int]) -> Chunk:
    start = entry.get("offset")
    if type(start) is not int or start not in following:
        raise BombError("a file without a place")
    end = entry.get("endOffset") or following[start]
    if type(end) is not int or not start < end <= max(following.values()):
        raise BombError("a file that ends before it begins, or outside of its layer")
    skip, size = entry.get("innerOffset", 0), entry.get("chunkSize") or None
    if type(skip) is not int or skip < 0 or not (size is None or (type(size) is int and size > 0)):
        raise BombError("a chunk without a size")
    return Chunk((start, end), skip, size)


def _fetched(blob: Blob, spans: list[Span]) -> dict[Span, bytes]:
    """Packed bytes by span; neighbours are fetched together."""
    runs: list[list[Span]] = []
    for span in spans:
        if runs and span[0] - runs[-1][-1][1] <= GAP:
            runs[-1].append(span)
        else:
            runs.append([span])
    got = blob.spans([(run[0][0], max(end for _, end in run)) for run in runs])
    found: dict[Span, bytes] = {}
    for run, data in zip(runs, got, strict=True):
        base = run[0][0]
        found.update({(start, end): data[start - base : end - base] for start, end in run})
    return found


def _part(packed: bytes, chunk: Chunk, packing: Packing, size: int) -> bytes:
    most = chunk.skip + (size if chunk.size is None else chunk.size)
    data = _inflated(packed, most) if packing == "gzip" else _zstd(packed, most)
    return data[chunk.skip : most]


def _inflated(packed: bytes, most: int) -> bytes:
    """Gzip members one after the other, at most so many bytes of them."""
    out, rest = bytearray(), packed
    while rest and len(out) < most:
        machine = zlib.decompressobj(31)
        out += machine.decompress(rest, most - len(out))
        rest = machine.unused_data
        if not machine.eof:
            break
    return bytes(out)


def _zstd(packed: bytes, most: int) -> bytes:
    import zstandard

    try:
        reader = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(packed), read_across_frames=True)
        return reader.read(most)
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from None
