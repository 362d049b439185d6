"""Runs on machines, from a copy of its source: digests of files, noted for as long as nothing of a file has changed."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from typing import Any

SETTLED = 2.0
"""Seconds: a file that was changed so shortly before may be changed again within the same tick of the clock."""


class Digests:
    """SHA-256 of files, by device, number, size and both times; a note that does not fit any more counts for nothing."""

    def __init__(self) -> None:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        self.path = os.path.join(base, "canserve", "digests.json")
        self.lock = threading.Lock()
        self.new: dict[str, list[Any]] = {}
        self.notes = self.read()

    def read(self) -> dict[str, list[Any]]:
        """What was noted; nothing where it cannot be read."""
        try:
            with open(self.path, "rb") as file:
                found = json.loads(file.read(64 << 20).decode())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def of(self, path: bytes) -> str:
        """Digest of a file's contents. Raises OSError."""
        seen = os.stat(path)
        note = self.notes.get(os.path.realpath(path).decode("latin-1"))
        if isinstance(note, list) and note[:-1] == marks(seen):
            return str(note[-1])
        sha = hashlib.sha256()
        buffer = memoryview(bytearray(1 << 20))
        with open(path, "rb", buffering=0) as file:
            before = os.fstat(file.fileno())
            while count := file.readinto(buffer):
                sha.update(buffer[:count])
            if marks(os.fstat(file.fileno())) == marks(before):
                self.put(path, before, sha.hexdigest())
        return sha.hexdigest()

    def put(self, path: bytes, seen: os.stat_result, digest: str) -> None:
        """Note what was read of a file that looked like this."""
        if time.time() - seen.st_ctime > SETTLED:
            with self.lock:
                self.new[os.path.realpath(path).decode("latin-1")] = [*marks(seen), digest]

    def keep(self) -> None:
        """Write the notes down; nothing depends on them."""
        if not self.new:
            return
        notes = {**self.read(), **self.new}
        kept = dict(list(notes.items())[-50_000:])
        own = f"{self.path}.{os.getpid()}"
        try:
            os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
            with open(own, "w", encoding="ascii") as file:
                json.dump(kept, file)
            os.replace(own, self.path)
        except OSError:
            return


def marks(seen: os.stat_result) -> list[int]:
    """What changes with every change of a file."""
    return [seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns]
