"""A tar archive (a source distribution) as a tree.

Tar has no directory: it is read once from end to end. Source files are kept on the way; anything else is only
listed, and read again from the start when it is asked for. Links and devices are never followed.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import tarfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Protocol

from canserve.facts import Missing
from canserve.trees.archive.blob import Blob
from canserve.trees.archive.kept import Kept
from canserve.trees.archive.members import Archive, Members
from canserve.trees.names import printable, refusal, unavailable, unreadable
from canserve.trees.tree import Entry, Hole, TreeError

MAX_UNPACKED = 2 << 30
"""Unpacked bytes that are passed over in search of files."""
MAX_RATIO = 200
"""Unpacked bytes for a packed one, beyond the first 64 MiB; source code packs four to ten times."""
MAX_MEMBERS = 200_000
MAX_KEPT = 64 << 20
MAX_FILE = 8 << 20
MAX_READ = 64 << 20
MAX_HOLES = 1_000
_HEADERS = 2 << 20
"""Bytes that may stand between two members: headers, long names, padding."""
_FREE = 64 << 20

_TEXT = (".py", ".pyi", ".toml", ".cfg", ".txt", ".in", ".json", ".c", ".cc", ".cpp", ".h", ".hpp")
_BARE = frozenset({"PKG-INFO", "METADATA"})


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...

    def close(self) -> None: ...


class _BombError(Exception):
    """More came out than there is reason for."""


class _Guarded:
    """Unpacked bytes, with an end: ``tarfile`` believes any length that a header names."""

    def __init__(self, inner: _Readable, limit: int) -> None:
        self._inner = inner
        self._limit = limit
        self.passed = 0
        self.until = _HEADERS
        """Position up to which reading is expected; moved on with each member."""

    def read(self, size: int) -> bytes:
        """At most ``size`` bytes."""
        if self.passed > self.until:
            raise _BombError("a header longer than any real one")
        data = self._inner.read(size)
        self.passed += len(data)
        if self.passed > self._limit:
            raise _BombError(f"it unpacks to more than {self._limit} bytes")
        return data


_BROKEN = (
    tarfile.TarError,
    EOFError,
    zlib.error,
    lzma.LZMAError,
    OSError,
    ValueError,
    OverflowError,
    _BombError,
)


class TarTree(Archive):
    """A read-only view of a tar archive on this machine. Raises TreeError when it cannot be read."""

    def __init__(self, blob: Blob, subject: str, origin: str, kept: Kept | None = None) -> None:
        """``kept``: of the very same archive, from an earlier time; it is not passed over then."""
        super().__init__(blob, subject, origin)
        self.kept = self._index() if kept is None else kept
        entries = {name: Entry(size) for name, size in self.kept.sizes.items()}
        holes = (Hole(printable(name), unreadable(subject, name, why)) for name, why in self.kept.holes)
        self._names = Members(entries, tuple(holes))

    def read(self, path: str, start: int = 0, end: int | None = None) -> bytes:
        """A member's bytes."""
        got = self.read_many([path])[path]
        if isinstance(got, Missing):
            raise TreeError(got)
        return got[start:end]

    def read_many(self, paths: Sequence[str]) -> Mapping[str, bytes | Missing]:
        """Kept ones at once; for the others the archive is passed over once more."""
        got: dict[str, bytes | Missing] = {}
        again = set[str]()
        room = MAX_READ
        for path in paths:
            entry = self._names.entries.get(path)
            if (content := self.kept.content(path)) is not None:
                got[path] = content
            elif entry is None:
                got[path] = unavailable(self.subject, path, "no such file")
            elif entry.size > room:
                got[path] = unreadable(self.subject, path, f"{entry.size} bytes, more than are read at once")
            else:
                again.add(path)
                room -= entry.size
        if again:
            got.update(self._search(again))
        return got

    def _index(self) -> Kept:
        sizes: dict[str, int] = {}
        holes: list[tuple[str, str]] = []
        packed: dict[str, bytes] = {}
        room = MAX_KEPT

        def visit(name: str, size: int, read: Callable[[], bytes]) -> None:
            nonlocal room
            if why := refusal(name):
                holes.append((name, why))
            else:  # where a name stands twice, unpacking leaves the later one
                sizes[name] = size
                packed.pop(name, None)
                if _worth_keeping(name) and size <= min(MAX_FILE, room):
                    packed[name] = zlib.compress(read(), 1)
                    room -= size
            if len(sizes) > MAX_MEMBERS or len(holes) > MAX_HOLES:
                raise _BombError("more members, or more unusable names, than any real archive has")

        try:
            self._walk(visit)
        except _BROKEN as error:
            why = f"not a readable tar archive: {_told(error)}"
            raise TreeError(unreadable(self.subject, "", why)) from None
        return Kept(sizes, tuple(holes), packed)

    def _search(self, wanted: set[str]) -> dict[str, bytes | Missing]:
        got: dict[str, bytes | Missing] = {}

        def visit(name: str, size: int, read: Callable[[], bytes]) -> None:
            del size
            if name in wanted:
                got[name] = read()

        try:
            self._walk(visit)
        except _BROKEN as error:
            return {
                path: unreadable(self.subject, path, str(error) or type(error).__name__) for path in wanted
            }
        return got

    def _walk(self, visit: Callable[[str, int, Callable[[], bytes]], None]) -> None:
        """Visit every regular file, in the archive's order."""
        limit = min(MAX_UNPACKED, _FREE + self._blob.size * MAX_RATIO)
        with closing(_opened(self._blob)) as inner:
            guard = _Guarded(inner, limit)
            with tarfile.open(fileobj=guard, mode="r|", errorlevel=1) as archive:  # type: ignore[call-overload]
                while (member := archive.next()) is not None:
                    archive.members.clear()  # tarfile would keep them all
                    if member.size < 0:
                        raise _BombError("a member with a negative size")
                    guard.until = guard.passed + member.size + _HEADERS
                    if not member.isreg() or member.issparse():
                        continue
                    handle = archive.extractfile(member)
                    assert handle is not None
                    visit(member.name.removeprefix("./"), member.size, partial(_exactly, handle, member.size))


def _told(error: BaseException) -> str:
    return str(error) or type(error).__name__


def _exactly(handle: _Readable, size: int) -> bytes:
    data = handle.read(size)
    if len(data) != size:
        raise EOFError("cut short within a member")
    return data


def _worth_keeping(name: str) -> bool:
    return name.endswith(_TEXT) or name.rpartition("/")[2] in _BARE


class _Stream:
    """A blob as a file that is read from start to end."""

    def __init__(self, blob: Blob) -> None:
        self._blob = blob
        self._at = 0

    def read(self, size: int = -1) -> bytes:
        end = self._blob.size if size < 0 else min(self._at + size, self._blob.size)
        if end <= self._at:
            return b""
        data = self._blob.spans([(self._at, end)])[0]
        self._at = end
        return data

    def seek(self, position: int, whence: int = 0) -> int:
        self._at = position + (self._at if whence == 1 else self._blob.size if whence == 2 else 0)
        return self._at

    def tell(self) -> int:
        return self._at

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        """Nothing is open."""


def _opened(blob: Blob) -> _Readable:
    """The unpacked bytes; how they are packed is told by the first of them."""
    stream = _Stream(blob)
    start = stream.read(6)
    stream.seek(0)
    if start.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=stream, mode="rb")
    if start.startswith(b"BZh"):
        return bz2.BZ2File(stream, "rb")
    if start.startswith(b"\xfd7zXZ\0"):
        return lzma.LZMAFile(stream, "rb")  # type: ignore[arg-type]
    return stream
