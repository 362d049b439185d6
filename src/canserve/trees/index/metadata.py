"""METADATA that an index keeps beside its wheels (PEP 658): fetched alone, and verified by its digest."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from canserve.facts import Missing
from canserve.trees.archive.remote import Place
from canserve.trees.index.pages import File
from canserve.trees.tree import Children, Cost, Listing, Tree
from canserve.trees.web.client import WebError

MAX_METADATA = 4 << 20


class WithMetadata:
    """A wheel whose METADATA comes from beside it; everything else comes from the wheel."""

    def __init__(self, inner: Tree, file: File, place: Place) -> None:
        self._inner = inner
        self._file = file
        self._place = place

    @property
    def subject(self) -> str:
        """Of the wheel."""
        return self._inner.subject

    @property
    def origin(self) -> str:
        """Of the wheel."""
        return self._inner.origin

    @property
    def cost(self) -> Cost:
        """Of both."""
        return self._inner.cost

    def children(self, folder: str = "") -> Children | None:
        """Of the wheel."""
        return self._inner.children(folder)

    def listing(self, prefix: str = "") -> Listing:
        """Of the wheel."""
        return self._inner.listing(prefix)

    def read(self, path: str, start: int = 0, end: int | None = None) -> bytes:
        """METADATA from beside the wheel, where it is there and right; else out of the wheel."""
        if _is_metadata(path) and (data := self._beside()) is not None:
            return data[start:end]
        return self._inner.read(path, start, end)

    def read_many(self, paths: Sequence[str]) -> Mapping[str, bytes | Missing]:
        """Out of the wheel, where they travel together."""
        return self._inner.read_many(paths)

    def _beside(self) -> bytes | None:
        digest = self._file.metadata_sha256
        if digest is None:
            return None
        data = self._place.cache.get("metadata", digest)
        if data is None:
            try:
                data = self._place.web.page(f"{self._file.url}.metadata", "*/*", MAX_METADATA).body or b""
            except WebError:
                return None
            if hashlib.sha256(data).hexdigest() != digest:
                return None
            self._place.cache.put("metadata", digest, data)
        return data


def _is_metadata(path: str) -> bool:
    parts = path.split("/")
    return len(parts) == 2 and parts[0].endswith(".dist-info") and parts[1] == "METADATA"
