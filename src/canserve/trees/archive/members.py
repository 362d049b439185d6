"""A tree made of a flat set of member names, as every kind of archive has one."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping

from canserve.trees.archive.blob import Blob
from canserve.trees.names import below, inside
from canserve.trees.tree import Children, Cost, Entry, Hole, Listing


class Members:
    """Names, sizes and holes of an archive, as folders."""

    def __init__(self, entries: Mapping[str, Entry], holes: tuple[Hole, ...]) -> None:
        self.entries = entries
        self.holes = holes
        self._sorted = sorted(entries)

    def listing(self, prefix: str) -> Listing:
        """All members below a folder."""
        folder = _folder(prefix)
        if folder is None:
            return Listing({})
        start = f"{folder}/" if folder else ""
        entries: dict[str, Entry] = {}
        for index in range(bisect_left(self._sorted, start), len(self._sorted)):
            name = self._sorted[index]
            if not name.startswith(start):
                break
            entries[name] = self.entries[name]
        holes = (hole for hole in self.holes if hole.covers(folder) or hole.prefix.startswith(start))
        return Listing(entries, tuple(holes))

    def children(self, prefix: str) -> Children | None:
        """One level below a folder; a folder exists when anything lies below it."""
        folder = _folder(prefix)
        if folder is None:
            return None
        start = f"{folder}/" if folder else ""
        files: dict[str, Entry] = {}
        folders: list[str] = []
        index = bisect_left(self._sorted, start)
        while index < len(self._sorted) and self._sorted[index].startswith(start):
            name = self._sorted[index]
            first, slash, _ = name[len(start) :].partition("/")
            if slash:
                folders.append(first)
                index = bisect_left(self._sorted, below(folder, first) + "0", index)  # "0" follows "/"
            else:
                files[first] = self.entries[name]
                index += 1
        holes = tuple(h for h in self.holes if h.covers(folder) or h.prefix.startswith(start))
        if not (files or folders or holes) and folder:
            return None
        return Children(files, tuple(sorted(folders)), holes=holes)


class Archive:
    """What every kind of archive does alike; the kinds differ in how they list and read."""

    def __init__(self, blob: Blob, subject: str, origin: str) -> None:
        self.subject = subject
        self.origin = origin
        self._blob = blob
        self._names = Members({}, ())

    @property
    def cost(self) -> Cost:
        """What getting and reading the archive took over the network."""
        return self._blob.cost

    def children(self, folder: str = "") -> Children | None:
        """The names in one folder."""
        return self._names.children(folder)

    def listing(self, prefix: str = "") -> Listing:
        """All members below a folder."""
        return self._names.listing(prefix)


def _folder(prefix: str) -> str | None:
    parts = inside(prefix)
    return None if parts is None else "/".join(parts)
