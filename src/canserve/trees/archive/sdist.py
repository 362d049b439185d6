"""A tar archive (a source distribution) as a tree.

Tar has no directory: it is read once from end to end. Source files are kept on the way; anything else is only
listed, and read again from the start when it is asked for. Links and devices are never followed.
"""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from canserve.facts import Missing
from canserve.trees.archive.blob import Blob
from canserve.trees.archive.kept import Kept
from canserve.trees.archive.members import Archive, Members
from canserve.trees.archive.stream import BROKEN, BombError, Readable, exactly, told, walk
from canserve.trees.names import printable, refusal, unavailable, unreadable
from canserve.trees.tree import Entry, Hole, TreeError, whole

MAX_UNPACKED = 2 << 30
"""Unpacked bytes that are passed over in search of files."""
MAX_MEMBERS = 200_000
MAX_KEPT = 64 << 20
MAX_FILE = 8 << 20
MAX_READ = 64 << 20
MAX_HOLES = 1_000
_TEXT = (".py", ".pyi", ".toml", ".cfg", ".txt", ".in", ".json", ".c", ".cc", ".cpp", ".h", ".hpp")
_BARE = frozenset({"PKG-INFO", "METADATA"})


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
        return whole(self, path)[start:end]

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
                raise BombError("more members, or more unusable names, than any real archive has")

        try:
            self._walk(visit)
        except BROKEN as error:
            why = f"not a readable tar archive: {told(error)}"
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
        except BROKEN as error:
            return {
                path: unreadable(self.subject, path, str(error) or type(error).__name__) for path in wanted
            }
        return got

    def _walk(self, visit: Callable[[str, int, Callable[[], bytes]], None]) -> None:
        """Visit every regular file, in the archive's order."""

        def one(member: tarfile.TarInfo, handle: Readable | None) -> None:
            if handle is not None:
                visit(member.name.removeprefix("./"), member.size, partial(exactly, handle, member.size))

        walk(self._blob, MAX_UNPACKED, one)


def _worth_keeping(name: str) -> bool:
    return name.endswith(_TEXT) or name.rpartition("/")[2] in _BARE
