"""A blob that is read from start to end, in few large requests, saying how far it is."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from canserve.trees.archive.blob import Around, Blob, Span

AHEAD = 16 << 20
"""Bytes of one request."""
FIRST = 1 << 20
"""Of the first one; each is twice as long as the one before, so that small layers and early ends cost little."""
_EVERY = 2.0
"""Seconds between two words about how far it is."""


class Ahead(Around):
    """Windows over a blob, one after the other."""

    def __init__(self, blob: Blob, tell: Callable[[str], None], what: str) -> None:
        """``what``: what is being read, for whoever waits for it."""
        super().__init__(blob)
        self._tell = tell
        self._what = what
        self._said = time.monotonic()
        self._start = 0
        self._data = b""
        self._next = FIRST
        self.moved = 0
        """Bytes that were asked for."""

    def spans(self, wanted: Sequence[Span]) -> list[bytes]:
        """Runs of bytes, out of the window where they lie in it."""
        return [self._span(start, end) for start, end in wanted]

    def _span(self, start: int, end: int) -> bytes:
        got = b""
        if self._start <= start <= self._start + len(self._data):
            got = self._data[start - self._start : end - self._start]
            start += len(got)
        return got + self._fetched(start, end) if start < end else got

    def _fetched(self, start: int, end: int) -> bytes:
        self._start = start
        self._data = self._blob.spans([(start, min(max(end, start + self._next), self.size))])[0]
        self._next = min(AHEAD, self._next * 2)
        self.moved += len(self._data)
        if time.monotonic() - self._said > _EVERY:
            self._said = time.monotonic()
            self._tell(f"{self._what}: {(start + len(self._data)) / 1e6:.0f} of {self.size / 1e6:.0f} MB")
        return self._data[: end - start]
