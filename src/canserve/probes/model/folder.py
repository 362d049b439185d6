"""A model on this disk: a folder, a snapshot of the Hub's cache with links into its blobs, or named files."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from canserve.engines.sources import Hole
from canserve.facts import Evidence, Fact, Known, Missing
from canserve.probes.model.files import Span
from canserve.trees.folder import FolderTree
from canserve.trees.names import printable, unavailable
from canserve.trees.tree import Entry, Listing, TreeError


class Folder:
    """Files below one folder. Links are followed inside it, and from a cache snapshot to its blobs."""

    kind = "folder"
    absent: frozenset[str] = frozenset()

    def __init__(self, path: Path, subject: str) -> None:
        real = Path(os.path.realpath(path))
        store = real.parent.parent
        is_snapshot = real.parent.name == "snapshots" and store.name.startswith("models--")
        self.subject = subject
        self._tree = FolderTree(store if is_snapshot else real, subject)
        self._below = f"snapshots/{real.name}/" if is_snapshot else ""
        commit = real.name if is_snapshot and re.fullmatch(r"[0-9a-f]{40}", real.name) else None
        saw = f"snapshot {commit}" if commit else "a folder has no revision"
        self.revision: Fact[str | None] = Known(commit, (Evidence(subject, "folder", saw),))

    def listing(self) -> Listing:
        """All files; hidden folders (``.git``, ``.cache``) are no part of a model."""
        found = self._tree.listing(self._below.rstrip("/"))
        cut = len(self._below)
        entries = {name[cut:]: entry for name, entry in found.entries.items()}
        holes = (Hole(hole.prefix[cut:], hole.missing) for hole in found.holes)
        return Listing(
            {name: entry for name, entry in entries.items() if not _hidden(name)},
            tuple(hole for hole in holes if not _hidden(hole.prefix + "/")),
        )

    def read(self, path: str, start: int = 0, end: int | None = None) -> bytes:
        """Bytes of a file from ``start`` to before ``end``. Raises TreeError."""
        return self._tree.read(self._below + path, start, end)

    def read_spans(self, spans: Sequence[Span]) -> Sequence[bytes | Missing]:
        """Several reads, one after the other: a disk gains nothing from threads here."""
        return [self._try(*span) for span in spans]

    def _try(self, path: str, start: int, end: int) -> bytes | Missing:
        try:
            return self.read(path, start, end)
        except TreeError as error:
            return error.missing


class NamedFiles(Folder):
    """Files that the user named: a config, the parts of a split GGUF file; wherever links lead, no others."""

    def __init__(self, kind: str, paths: Sequence[Path], subject: str, rest: Missing) -> None:
        super().__init__(paths[0].parent, subject)
        self.kind = kind
        self._paths = {printable(path.name): Path(os.path.realpath(path)) for path in paths}
        self._rest = rest

    def listing(self) -> Listing:
        """The named files; everything else is a hole."""
        entries: dict[str, Entry] = {}
        holes = [Hole("", self._rest)]
        for name, path in self._paths.items():
            try:
                entries[name] = Entry(path.stat().st_size)
            except OSError as error:
                why = error.strerror or type(error).__name__
                holes.insert(0, Hole(name, unavailable(self.subject, name, why)))
        return Listing(entries, tuple(holes))

    def read(self, path: str, start: int = 0, end: int | None = None) -> bytes:
        """Bytes of a named file. Raises TreeError."""
        real = self._paths[path]
        return FolderTree(real.parent, self.subject).read(real.name, start, end)


def _hidden(name: str) -> bool:
    return any(part.startswith(".") for part in name.split("/")[:-1])
