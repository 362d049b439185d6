"""Packed bytes as they unpack, from start to end, with limits: what every tar archive is read through."""

from __future__ import annotations

import bz2
import lzma
import tarfile
import zlib
from collections.abc import Callable
from contextlib import closing
from typing import Protocol

from canserve.trees.archive.blob import Blob

MAX_RATIO = 200
"""Unpacked bytes for a packed one, beyond the first 64 MiB; source code packs four to ten times."""
_HEADERS = 2 << 20
"""Bytes that may stand between two members: headers, long names, padding."""
_FREE = 64 << 20
_STEP = 1 << 20
ZSTD = b"\x28\xb5\x2f\xfd"
MAX_WINDOW = 128 << 20
"""Bytes that a zstandard frame may refer back to; what wants more memory is refused."""


class Readable(Protocol):
    """The least that is asked of a file that is read from start to end."""

    def read(self, size: int, /) -> bytes:
        """At most ``size`` bytes; none at the end."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


class BombError(Exception):
    """More came out than there is reason for."""


BROKEN = (
    tarfile.TarError,
    EOFError,
    zlib.error,
    lzma.LZMAError,
    OSError,
    ValueError,
    OverflowError,
    BombError,
)
"""All that a damaged or hostile archive makes the libraries raise."""


See = Callable[[bytes], object]
"""Told every unpacked byte, in order: a digest, say."""


class _Guarded:
    """Unpacked bytes, with an end: ``tarfile`` believes any length that a header names."""

    def __init__(self, inner: Readable, limit: int, see: See | None) -> None:
        self._inner = inner
        self._limit = limit
        self._see = see
        self.passed = 0
        self.until = _HEADERS
        """Position up to which reading is expected; moved on with each member."""

    def read(self, size: int) -> bytes:
        """At most ``size`` bytes."""
        if self.passed > self.until:
            raise BombError("a header longer than any real one")
        data = self._inner.read(size)
        self.passed += len(data)
        if self.passed > self._limit:
            raise BombError(f"it unpacks to more than {self._limit} bytes")
        if self._see is not None:
            self._see(data)
        return data


class Stream:
    """A blob as a file that is read from start to end."""

    def __init__(self, blob: Blob) -> None:
        self._blob = blob
        self._at = 0

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        end = self._blob.size if size < 0 else min(self._at + size, self._blob.size)
        if end <= self._at:
            return b""
        data = self._blob.spans([(self._at, end)])[0]
        self._at = end
        return data

    def seek(self, position: int, whence: int = 0) -> int:
        """As files do."""
        self._at = position + (self._at if whence == 1 else self._blob.size if whence == 2 else 0)
        return self._at

    def tell(self) -> int:
        """As files do."""
        return self._at

    def seekable(self) -> bool:
        """Always."""
        return True

    def close(self) -> None:
        """Nothing is open."""


def unpacked(blob: Blob) -> Readable:
    """The unpacked bytes; how they are packed is told by the first of them."""
    stream = Stream(blob)
    start = stream.read(6)
    stream.seek(0)
    if start.startswith(b"\x1f\x8b"):
        return _Gzip(stream)
    if start.startswith(b"BZh"):
        return bz2.BZ2File(stream, "rb")
    if start.startswith(b"\xfd7zXZ\0"):
        return lzma.LZMAFile(stream, "rb")  # type: ignore[arg-type]
    if start.startswith(ZSTD):
        return _Zstd(stream)
    return stream


class _Gzip:
    """Gzip members one after the other; ``gzip.GzipFile`` takes four times as long over large layers."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._rest = b""
        self._machine = zlib.decompressobj(31)

    def read(self, size: int) -> bytes:
        """At most ``size`` bytes; raises EOFError within a member, zlib.error for what is no gzip."""
        while size > 0:
            if self._machine.eof and not self._next():
                return b""
            if not self._rest:
                self._rest = self._stream.read(_STEP)
            ended = not self._rest
            data = self._machine.decompress(self._rest, size)
            self._rest = self._machine.unconsumed_tail or self._machine.unused_data
            if data:
                return data
            if ended and not self._machine.eof:
                raise EOFError("cut short within a gzip member")
        return b""

    def _next(self) -> bool:
        """Begin the next member; zeros after the last one are padding."""
        rest = self._rest.lstrip(b"\0")
        while not rest:
            if not (more := self._stream.read(_STEP)):
                return False
            rest = more.lstrip(b"\0")
        self._rest = rest
        self._machine = zlib.decompressobj(31)
        return True

    def close(self) -> None:
        """Nothing is open."""


class _Zstd:
    """Zstandard frames one after the other; skippable ones between them hold nothing of the content."""

    def __init__(self, stream: Stream) -> None:
        import zstandard  # loaded for the few layers that are packed so

        self._broken = zstandard.ZstdError
        machine = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW)
        self._inner = machine.stream_reader(stream, read_size=1 << 20, read_across_frames=True)  # type: ignore[arg-type]

    def read(self, size: int) -> bytes:
        try:
            return self._inner.read(size)
        except self._broken as error:
            raise ValueError(str(error)) from None

    def close(self) -> None:
        self._inner.close()  # type: ignore[no-untyped-call]


Visit = Callable[[tarfile.TarInfo, Readable | None], None]
"""Told each member, with its bytes where it is a regular file."""


def walk(blob: Blob, most: int, visit: Visit, see: See | None = None) -> None:
    """Visit every member of a tar archive, in the archive's order, unpacking at most ``most`` bytes.

    ``see`` is told everything to the very end, padding included. Raises what ``BROKEN`` lists for an archive that is damaged or larger.
    """
    limit = min(most, _FREE + blob.size * MAX_RATIO)
    with closing(unpacked(blob)) as inner:
        guard = _Guarded(inner, limit, see)
        with tarfile.open(fileobj=guard, mode="r|", errorlevel=1, bufsize=1 << 18) as archive:  # type: ignore[call-overload]
            while (member := archive.next()) is not None:
                archive.members.clear()  # tarfile would keep them all
                if member.size < 0:
                    raise BombError("a member with a negative size")
                guard.until = guard.passed + member.size + _HEADERS
                regular = member.isreg() and not member.issparse()
                visit(member, archive.extractfile(member) if regular else None)
        guard.until = limit
        while guard.read(_STEP):  # to the end, where a packer's own checksum stands
            pass


def exactly(handle: Readable, size: int) -> bytes:
    """A member's bytes. Raises EOFError where it is cut short."""
    data = handle.read(size)
    if len(data) != size:
        raise EOFError("cut short within a member")
    return data


def told(error: BaseException) -> str:
    """A library's error in words."""
    return str(error) or type(error).__name__
