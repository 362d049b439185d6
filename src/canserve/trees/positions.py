"""Files of a tree read by position: where they lie when the tree can do that, else unpacked to the disk first.

What is unpacked goes into files without a name, one at a time, and is gone when it was used.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, Protocol, TypeAlias, runtime_checkable

from canserve.facts import Missing
from canserve.trees.names import unavailable, unreadable
from canserve.trees.tree import Tree, TreeError

MAX_UNPACKED = 8 << 30
"""Bytes of one file; the largest library measured has 2 GB."""
_SPARE = 256 << 20
"""Bytes that stay free on the disk."""
_STEP = 1 << 20


class Positions(Protocol):
    """One file's bytes by position."""

    @property
    def size(self) -> int:
        """In bytes."""
        ...

    def read(self, start: int, end: int) -> bytes:
        """These bytes; fewer at the end of the file. Raises TreeError."""
        ...


Use: TypeAlias = Callable[[str, Positions], None]
"""Told a path and its bytes, which are there until it returns."""


@runtime_checkable
class Unpacking(Protocol):
    """A tree whose files have to be unpacked."""

    def visit(self, paths: Sequence[str], use: Use) -> Mapping[str, Missing]:
        """Unpack these files one after the other; the answer holds those that could not be."""
        ...


def visit(tree: Tree, sizes: Mapping[str, int], use: Use) -> Mapping[str, Missing]:
    """Use every one of these files; the answer holds those that could not be read, and why.

    ``sizes``: by path, in bytes, as the tree lists them. ``use`` may raise TreeError.
    """
    if isinstance(tree, Unpacking):
        return tree.visit(list(sizes), use)
    failed: dict[str, Missing] = {}
    for path, size in sizes.items():
        try:
            use(path, _InTree(tree, path, size))
        except TreeError as error:
            failed[path] = error.missing
    return failed


class _InTree:
    """A file that is read where it lies."""

    def __init__(self, tree: Tree, path: str, size: int) -> None:
        self._tree = tree
        self._path = path
        self.size = size

    def read(self, start: int, end: int) -> bytes:
        return self._tree.read(self._path, start, end)


class _Spooled:
    """A file that was unpacked."""

    def __init__(self, handle: IO[bytes], size: int) -> None:
        self._handle = handle
        self.size = size

    def read(self, start: int, end: int) -> bytes:
        try:
            return os.pread(self._handle.fileno(), max(0, end - start), start)
        except OSError as error:
            raise TreeError(unavailable("", "", f"a temporary file: {error.strerror}")) from None


@contextmanager
def spooled(pieces: Iterator[bytes], size: int, where: tuple[str, str]) -> Iterator[Positions]:
    """The pieces of a file of this size, by position. ``where``: subject and path, for messages.

    Raises TreeError: too large, no room, or more or fewer bytes than its size.
    """
    if size > MAX_UNPACKED:
        raise TreeError(unreadable(*where, f"{size} bytes, more than the {MAX_UNPACKED} that are unpacked"))
    try:
        with tempfile.TemporaryFile(prefix="canserve-") as handle:
            if shutil.disk_usage(tempfile.gettempdir()).free < size + _SPARE:
                why = f"{size} bytes do not fit into {tempfile.gettempdir()}"
                raise TreeError(unavailable(*where, why, "set TMPDIR to a folder with more room"))
            written = 0
            for piece in pieces:
                written += handle.write(piece)
                if written > size:
                    break
            if written != size:
                raise TreeError(unreadable(*where, f"it does not have the {size} bytes that it declares"))
            handle.flush()
            yield _Spooled(handle, size)
    except OSError as error:
        raise TreeError(unavailable(*where, f"a temporary file: {error.strerror}")) from None


def checksummed(pieces: Iterator[bytes], crc: int, where: tuple[str, str]) -> Iterator[bytes]:
    """The pieces, whose CRC-32 is compared at the end. Raises TreeError."""
    found = 0
    for piece in pieces:
        found = zlib.crc32(piece, found)
        yield piece
    if found != crc:
        raise TreeError(unreadable(*where, "its checksum is wrong"))


def in_steps(read: Callable[[int], bytes], size: int) -> Iterator[bytes]:
    """A file that is read from start to end, as pieces of its first ``size`` bytes."""
    while size > 0 and (piece := read(min(size, _STEP))):
        size -= len(piece)
        yield piece
