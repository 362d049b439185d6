"""What was fetched once, kept in the user's cache folder under its content's name.

Safe to share between processes: files appear whole, by renaming, or not at all; what has gone bad is found by
its digest, removed and fetched again. A cache that cannot be written is no error, only slower.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

_MARK = b"canserve1"
_HEAD = len(_MARK) + 32
LIMIT = 2 << 30
"""Bytes kept at most; what was used longest ago goes first."""
_LOOK_EVERY = 64 << 20
_FRESH = 3600


class Cache:
    """Small and large entries by kind and key. Keys are file names: hexadecimal digests, positions."""

    def __init__(self, folder: Path | None = None, limit: int = LIMIT) -> None:
        self.folder = (folder or default_folder()) / "1"
        self._limit = limit
        self._since_look = _LOOK_EVERY  # the first write of a process looks

    def get(self, kind: str, key: str) -> bytes | None:
        """The entry; None when there is none, or when it had gone bad (it is removed then)."""
        path = self._path(kind, key)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        if data[: len(_MARK)] != _MARK or hashlib.sha256(data[_HEAD:]).digest() != data[len(_MARK) : _HEAD]:
            self.drop(kind, key)
            return None
        self._touch(path)
        return data[_HEAD:]

    def part(self, kind: str, key: str, start: int, count: int) -> bytes | None:
        """Some bytes of an entry that ``get`` has found good before."""
        try:
            handle = os.open(self._path(kind, key), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            data = os.pread(handle, count, _HEAD + start)
        except OSError:
            return None
        finally:
            os.close(handle)
        return data if len(data) == count else None

    def put(self, kind: str, key: str, data: bytes) -> bool:
        """Keep an entry; False when that is not possible here."""
        try:
            with self.new() as (path, handle):
                write_all(handle, _MARK + hashlib.sha256(data).digest())
                write_all(handle, data)
                return self.adopt(kind, key, path, len(data))
        except OSError:
            return False

    @contextlib.contextmanager
    def new(self) -> Iterator[tuple[Path, int]]:
        """A file to be filled and then adopted; removed when it was not. Raises OSError when not writable."""
        folder = self.folder / "new"
        folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=folder)
        try:
            yield Path(name), handle
        finally:
            os.close(handle)
            Path(name).unlink(missing_ok=True)

    def adopt(self, kind: str, key: str, path: Path, size: int) -> bool:
        """Make a file that ``new`` gave an entry."""
        target = self._path(kind, key)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            path.replace(target)
        except OSError:
            return False
        self._since_look += size
        if self._since_look >= _LOOK_EVERY:
            self._since_look = 0
            self._trim(target)
        return True

    def file(self, kind: str, key: str) -> Path | None:
        """Where an adopted file lies, if it does."""
        path = self._path(kind, key)
        if not path.is_file():
            return None
        self._touch(path)
        return path

    def keys(self, kind: str) -> list[str]:
        """All keys of a kind."""
        try:
            return sorted(entry.name for entry in os.scandir(self.folder / kind))
        except OSError:
            return []

    def drop(self, kind: str, key: str) -> None:
        """Forget an entry."""
        with contextlib.suppress(OSError):
            self._path(kind, key).unlink(missing_ok=True)

    def notes(self, kind: str) -> Shelved:
        """The entries of one kind."""
        return Shelved(self, kind)

    def _path(self, kind: str, key: str) -> Path:
        return self.folder / kind / key

    def _touch(self, path: Path) -> None:
        """Mark as used, for the eviction; not more than once an hour."""
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _FRESH:
                os.utime(path)

    def _trim(self, keep: Path) -> None:
        found: list[tuple[float, int, Path]] = []
        for folder, _, names in os.walk(self.folder):
            for name in names:
                path = Path(folder, name)
                with contextlib.suppress(OSError):
                    status = path.stat()
                    found.append((status.st_mtime, status.st_size, path))
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if total <= self._limit:
                break
            if path != keep:
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)
                    total -= size


class Shelved:
    """One kind of entries: what a reader worked out of a file, under a digest of the file."""

    def __init__(self, cache: Cache, kind: str) -> None:
        self._cache = cache
        self._kind = kind

    def get(self, key: str) -> bytes | None:
        """What was kept; None: nothing."""
        return self._cache.get(self._kind, key)

    def put(self, key: str, data: bytes) -> bool:
        """Keep it; False when that is not possible here."""
        return self._cache.put(self._kind, key, data)


def default_folder() -> Path:
    """``CANSERVE_CACHE``, else the user's cache folder."""
    if named := os.environ.get("CANSERVE_CACHE"):
        return Path(named)
    import platformdirs

    return platformdirs.user_cache_path("canserve")


def write_all(handle: int, data: bytes) -> None:
    """Write every byte, which one call of ``os.write`` need not do. Raises OSError."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(handle, rest) :]
