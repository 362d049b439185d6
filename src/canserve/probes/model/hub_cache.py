"""The Hub's cache on this disk, where ``huggingface_hub`` keeps what was downloaded."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

from canserve.facts import Evidence, Known, Missing
from canserve.probes.model.documents import MAX_BYTES, Unreadable, parse
from canserve.probes.model.folder import Folder
from canserve.probes.model.names import stays_inside
from canserve.trees.names import unreached
from canserve.trees.tree import Entry, Hole, Listing, TreeError

ONLINE = "read it from the Hub (without --offline), or download it: hf download"

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class Snapshot(Folder):
    """A revision as far as it lies in the Hub's cache: what is not there may still exist on the Hub."""

    kind = "hub"

    def __init__(self, store: Path, commit: str, subject: str, note: str) -> None:
        super().__init__(store / "snapshots" / commit, subject)
        self._store = store
        self._commit = commit
        self._here: Mapping[str, Entry] = {}
        seen = Evidence(subject, "Hub cache", f"snapshot {commit}; {note}", whole=False)
        self.revision = Known(commit, (seen,))
        self.absent = frozenset(_names_below(store / ".no_exist" / commit))

    def listing(self) -> Listing:
        """What is cached; the rest too, by name and size, where the cache recorded the commit's file list."""
        here = super().listing()
        self._here = here.entries
        recorded = self._recorded()
        if recorded is None:
            return Listing(here.entries, (*here.holes, Hole("", self._lost("the file"))))
        return Listing({**recorded, **here.entries}, here.holes)

    def read(self, path: str, start: int = 0, end: int | None = None) -> bytes:
        """Bytes of a cached file. Raises TreeError."""
        if path not in self._here:
            raise TreeError(self._lost(path))
        return super().read(path, start, end)

    def _lost(self, path: str) -> Missing:
        return unreached(self.subject, path, "not in the Hub's cache on this disk", ONLINE)

    def _recorded(self) -> Mapping[str, Entry] | None:
        """``trees/<commit>.json``, which newer releases of huggingface_hub write."""
        try:
            with (self._store / "trees" / f"{self._commit}.json").open("rb") as file:
                files = parse(file.read(MAX_BYTES + 1)).value["files"]
            return {
                name: Entry(size)
                for name, size in ((name, item.get("lfs_size", item["size"])) for name, item in files.items())
                if stays_inside(name) and type(size) is int
            }
        except (OSError, Unreadable, KeyError, TypeError, AttributeError):
            return None  # an unknown form: the list is then as if it had not been recorded


def open_cached(repo: str, revision: str | None, subject: str, cache: Path, why: str) -> Snapshot | None:
    """The snapshot of a revision, None where it is not cached. ``why`` the Hub is not read."""
    store = cache / ("models--" + repo.replace("/", "--"))
    commit = revision or "main"
    if not stays_inside(commit):
        return None
    reference = store / "refs" / commit
    try:
        if reference.is_file():
            with reference.open("rb") as file:
                commit = file.read(100).decode("ascii", "replace").strip()
    except OSError:
        return None
    if not _COMMIT.fullmatch(commit) or not (store / "snapshots" / commit).is_dir():
        return None
    return Snapshot(store, commit, subject, why)


def _names_below(folder: Path) -> list[str]:
    """Markers of files that the Hub said it does not have."""
    try:
        return [path.name for path in islice(folder.iterdir(), 1000)]
    except OSError:
        return []
