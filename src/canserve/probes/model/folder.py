"""A model in a local folder, or in a snapshot of the Hub's cache, whose files are links into ``blobs/``."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from canserve.facts import Cause, Evidence, Fact, Known, Missing
from canserve.probes.model.files import UNKNOWN_SIZE, Span
from canserve.probes.model.text import inside, plain
from canserve.trees.tree import Entry, Hole, Listing, TreeError

MAX_FILES = 50_000
MAX_FOLDERS = 1000
MAX_DEPTH = 3
"""Folders below the model's own: ``original/``, ``additional_chat_templates/``, one a GGUF quantization."""


class Folder:
    """Files below one folder. Links are followed inside it, and from a cache snapshot to its blobs."""

    kind = "folder"
    absent: frozenset[str] = frozenset()

    def __init__(self, path: Path, subject: str) -> None:
        self.subject = subject
        self.root = Path(os.path.realpath(path))
        self._homes = [self.root]
        self.revision: Fact[str | None] = Known(None, (self._seen("folder", "a folder has no revision"),))
        if self.root.parent.name == "snapshots" and self.root.parent.parent.name.startswith("models--"):
            self._homes.append(self.root.parent.parent / "blobs")
            if re.fullmatch(r"[0-9a-f]{40}", self.root.name):
                self.revision = Known(self.root.name, (self._seen("folder", f"snapshot {self.root.name}"),))

    def listing(self) -> Listing:
        """Files at most three folders deep; hidden folders (``.git``, ``.cache``) are no part of a model."""
        entries: dict[str, Entry] = {}
        holes: list[Hole] = []
        for name, found in self._walk("", 0):
            if len(entries) + len(holes) >= MAX_FILES:
                holes.append(
                    Hole("", self._missing("", f"more than {MAX_FILES} files, the rest was not listed"))
                )
                break
            if isinstance(found, Missing):
                holes.append(Hole(name, found))
            else:
                entries[name] = found
        return Listing(entries, tuple(holes))

    def _walk(self, below: str, depth: int) -> Iterator[tuple[str, Entry | Missing]]:
        folders: list[str] = []
        try:
            with os.scandir(self.root / below) as items:
                for item in items:
                    name = f"{below}/{item.name}" if below else item.name
                    if not inside(name):
                        yield plain(name, 200), self._missing(name, "a name that cannot be shown")
                    elif item.is_dir(follow_symlinks=False) and len(folders) < MAX_FOLDERS:
                        folders.append(name)
                    else:
                        yield name, self._entry(name, item.is_symlink())
        except OSError as error:
            yield below, self._missing(below, _reason(error))
        for name in sorted(folders):
            if name.rsplit("/", 1)[-1].startswith("."):
                continue
            if depth < MAX_DEPTH:
                yield from self._walk(name, depth + 1)
            else:
                yield name, self._missing(name, f"deeper than {MAX_DEPTH} folders, not listed")

    def _entry(self, name: str, link: bool) -> Entry | Missing:
        try:
            if link and self._outside(name):
                return self._missing(name, "a link that leaves the folder is not followed")
            status = self._place(name).stat()
        except FileNotFoundError:
            return Entry(UNKNOWN_SIZE)  # a link to a blob that is not there: the name is, its content is not
        except OSError as error:
            return self._missing(name, _reason(error))
        if not stat.S_ISREG(status.st_mode):
            return self._missing(name, "not a regular file, not listed")
        return Entry(status.st_size)

    def _place(self, name: str) -> Path:
        return self.root / name

    def _outside(self, name: str) -> bool:
        real = Path(os.path.realpath(self._place(name)))
        return not any(real.is_relative_to(home) for home in self._homes)

    def read(self, path: str, start: int = 0, end: int | None = None) -> bytes:
        """Bytes of a file from ``start`` to before ``end``. Raises TreeError."""
        try:
            if self._outside(path):
                raise TreeError(self._missing(path, "a link that leaves the folder is not followed"))
            # Without O_NONBLOCK the open of a pipe put in place of a file would wait for ever.
            descriptor = os.open(self._place(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as file:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise TreeError(self._missing(path, "not a regular file"))
                file.seek(start)
                return file.read(-1 if end is None else max(0, end - start))
        except FileNotFoundError:
            raise TreeError(self._lost(path)) from None
        except OSError as error:
            raise TreeError(self._missing(path, _reason(error))) from None

    def _lost(self, path: str) -> Missing:
        """A listed file that is not there."""
        link = self._place(path).is_symlink()
        why = "a link to nothing: its content is not on this disk" if link else "the file is gone"
        return self._missing(path, why, "download the model again")

    def read_spans(self, spans: Sequence[Span]) -> Sequence[bytes | Missing]:
        """Several reads, one after the other: a disk gains nothing from threads here."""
        return [self._try(*span) for span in spans]

    def _try(self, path: str, start: int, end: int) -> bytes | Missing:
        try:
            return self.read(path, start, end)
        except TreeError as error:
            return error.missing

    def _missing(self, path: str, why: str, ask: str | None = None) -> Missing:
        shown = plain(path, 200) or "."
        return Missing(Cause.UNAVAILABLE, f"{shown}: {why}", (self._seen(shown, why, whole=False),), ask)

    def _seen(self, how: str, saw: str, whole: bool = True) -> Evidence:
        return Evidence(self.subject, how, saw, whole)


class NamedFiles(Folder):
    """Files of one folder that the user named: a config, or the parts of a split GGUF file; nothing else."""

    def __init__(self, kind: str, paths: Sequence[Path], subject: str, rest: Missing) -> None:
        super().__init__(paths[0].parent, subject)
        self.kind = kind
        self._paths = {plain(path.name, 255): path for path in paths}
        self._rest = rest

    def listing(self) -> Listing:
        """The named files; everything else is a hole."""
        found = {name: self._entry(name, link=False) for name in self._paths}
        entries = {name: entry for name, entry in found.items() if isinstance(entry, Entry)}
        holes = [Hole(name, missing) for name, missing in found.items() if isinstance(missing, Missing)]
        return Listing(entries, (*holes, Hole("", self._rest)))

    def _place(self, name: str) -> Path:
        return self._paths[name]

    def _outside(self, name: str) -> bool:
        return name not in self._paths  # where the user pointed is where he wants to look, link or not


def _reason(error: OSError) -> str:
    return plain(error.strerror or type(error).__name__)
