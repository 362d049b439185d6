"""Bytes of one file by position, wherever the file is."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from canserve.trees.names import unavailable, unreadable
from canserve.trees.tree import Cost, TreeError

Span = tuple[int, int]
"""Start and end of a run of bytes, the end not included."""


class Blob(Protocol):
    """A file that is read by position. All reads raise TreeError when they give less than was asked for."""

    @property
    def size(self) -> int:
        """In bytes; asking may cost a request."""
        ...

    @property
    def cost(self) -> Cost:
        """What it has taken over a network so far."""
        ...

    def held(self, span: Span) -> bool:
        """Whether these bytes are on this machine already."""
        ...

    def tail(self, count: int) -> bytes:
        """The last ``count`` bytes, or the whole file where it is smaller. Sizes are known after this."""
        ...

    def spans(self, wanted: Sequence[Span]) -> list[bytes]:
        """These runs of bytes, in order, in as few round trips as there are runs."""
        ...

    def forget(self, span: Span) -> None:
        """These bytes turned out to be corrupt: do not serve them from a cache again."""
        ...


@runtime_checkable
class Kept(Protocol):
    """A blob that keeps what is read of it for the next time."""

    def passing(self) -> Blob:
        """The same bytes, of which nothing more is kept: for large parts that are passed over once."""
        ...


def passing(blob: Blob) -> Blob:
    """A blob to pass over once."""
    return blob.passing() if isinstance(blob, Kept) else blob


class Around:
    """A blob of the bytes of another one; who derives from it reads them in its own way."""

    def __init__(self, blob: Blob) -> None:
        self._blob = blob
        self.size = blob.size

    @property
    def cost(self) -> Cost:
        """Of the blob."""
        return self._blob.cost

    def held(self, span: Span) -> bool:
        """As the blob says."""
        return self._blob.held(span)

    def tail(self, count: int) -> bytes:
        """The blob's."""
        return self._blob.tail(count)

    def forget(self, span: Span) -> None:
        """As the blob does."""
        self._blob.forget(span)


class FileBlob:
    """A regular file on this machine."""

    def __init__(self, path: Path, subject: str, cost: Cost | None = None) -> None:
        """Raises TreeError when it is not a readable regular file. ``cost``: what it took to get it here."""
        self._subject = subject
        self._name = path.name
        self.cost = cost or Cost()
        try:
            self._handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise TreeError(unavailable(subject, path.name, why)) from None
        status = os.fstat(self._handle)
        if not stat.S_ISREG(status.st_mode):
            os.close(self._handle)
            self._handle = -1
            raise TreeError(unreadable(subject, path.name, "not a regular file"))
        self.size = status.st_size

    def __del__(self) -> None:
        if getattr(self, "_handle", -1) >= 0:
            os.close(self._handle)

    def held(self, span: Span) -> bool:
        """Always."""
        del span
        return True

    def tail(self, count: int) -> bytes:
        """The last bytes."""
        return self.spans([(max(0, self.size - count), self.size)])[0]

    def spans(self, wanted: Sequence[Span]) -> list[bytes]:
        """Read at each position."""
        return [self._span(start, end) for start, end in wanted]

    def forget(self, span: Span) -> None:
        """Nothing is kept."""

    def _span(self, start: int, end: int) -> bytes:
        try:
            data = os.pread(self._handle, end - start, start)
        except OSError as error:
            raise TreeError(unavailable(self._subject, self._name, error.strerror or "read error")) from None
        if len(data) != end - start:
            why = f"ends at byte {start + len(data)}, before byte {end}"
            raise TreeError(unreadable(self._subject, self._name, why))
        return data
