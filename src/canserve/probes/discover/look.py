"""Looking for single files and folders in a tree, remembering what was looked at."""

from __future__ import annotations

from collections.abc import Iterable

from canserve.facts import Evidence, Fact, Known, Missing
from canserve.trees.names import below, unreadable
from canserve.trees.tree import Children, Tree, TreeError

MAX_FILE = 4 << 20
"""Bytes of one metadata file; the longest METADATA measured had 100 kB."""


class Look:
    """One tree, asked name by name."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._children: dict[str, Children | None] = {}

    def children(self, folder: str) -> Children | None:
        """One level of a folder; None: no such folder."""
        if folder not in self._children:
            self._children[folder] = self.tree.children(folder)
        return self._children[folder]

    def is_folder(self, path: str) -> bool:
        """Whether a folder is there. False proves absence only when ``gap`` is None."""
        parent, _, name = path.rpartition("/")
        found = self.children(parent)
        return not path or (found is not None and name in found.folders)

    def is_file(self, path: str) -> bool:
        """Whether a file is there. False proves absence only when ``gap`` is None."""
        parent, _, name = path.rpartition("/")
        found = self.children(parent)
        return found is not None and name in found.files

    def gap(self, path: str) -> Missing | None:
        """Why something may be at ``path`` although it was not seen."""
        folder = path
        while folder:
            folder = folder.rpartition("/")[0]
            found = self.children(folder)
            if found is not None:
                return next((hole.missing for hole in found.holes if hole.covers(path)), None)
        return None

    def file(self, path: str) -> Fact[bytes | None]:
        """A small file; ``Known(None)``: looked, not there."""
        if not self.is_file(path):
            return self.gap(path) or Known(None, (self.seen(path, "no such file"),))
        size = self._size(path)
        if size > MAX_FILE:
            return unreadable(
                self.tree.subject, path, f"{size} bytes, more than the {MAX_FILE} that are read"
            )
        try:
            return Known(self.tree.read(path), (self.seen(path, f"{size} bytes"),))
        except TreeError as error:
            return error.missing

    def _size(self, path: str) -> int:
        parent, _, name = path.rpartition("/")
        found = self.children(parent)
        return found.files[name].size if found else 0

    def together(self, paths: Iterable[str]) -> None:
        """Bring small files of a remote tree in at once; a hint, like ``Sources.prefetch``."""
        there = [path for path in paths if self.is_file(path) and self._size(path) <= MAX_FILE]
        if len(there) > 1:
            self.tree.read_many(there)

    def text(self, path: str) -> str | None:
        """A small file as text where it is there and readable; for files that only help to find others."""
        found = self.file(path)
        if isinstance(found, Missing) or found.value is None:
            return None
        return found.value.decode("utf-8", "replace")

    def seen(self, path: str, saw: str) -> Evidence:
        """Evidence of a look at this tree."""
        return Evidence(self.tree.subject, path or "the tree", saw)

    def package(self, folder: str, name: str) -> str | None:
        """The folder of an importable package in ``folder``; None: it is not there."""
        path = below(folder, name)
        return path if self.is_folder(path) and self.is_file(below(path, "__init__.py")) else None
