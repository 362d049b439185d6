"""What every origin looks like once it is opened: names, and bytes on demand.

Paths are relative to the tree's root, with ``/`` between parts, never starting or ending with one, and
printable: an entry whose name is not is never listed, it becomes a hole. Nothing is left out silently.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from canserve.engines.sources import Hole
from canserve.facts import Missing

__all__ = ["Children", "Cost", "Entry", "Hole", "Listing", "Tree", "TreeError"]


class TreeError(Exception):
    """A tree, a folder or a file that could not be read; carries the reason as a value."""

    def __init__(self, missing: Missing) -> None:
        super().__init__(missing.why)
        self.missing = missing


@dataclass(frozen=True, slots=True)
class Entry:
    """One file."""

    size: int
    """In bytes, as the origin declares it; reading may prove it wrong, which is an error then."""
    digest: str | None = None
    """``crc32:89abcdef`` or ``sha256:...`` where the origin has it for free; equal means equal content."""


@dataclass(frozen=True, slots=True)
class Listing:
    """All files below a folder, and every place below it that could not be listed."""

    entries: Mapping[str, Entry]
    holes: tuple[Hole, ...] = ()


@dataclass(frozen=True, slots=True)
class Children:
    """One folder, one level: the names in it. ``files`` and ``folders`` hold names, not paths.

    Pipes, sockets and devices are in neither: to whoever looks for files they are not there.
    """

    files: Mapping[str, Entry] = field(default_factory=lambda: MappingProxyType({}))
    folders: tuple[str, ...] = ()
    """Sorted."""
    linked: frozenset[str] = frozenset()
    """Of the folders those that are links to others in the same tree."""
    holes: tuple[Hole, ...] = ()
    """Names in it that are neither (a link out of the tree), or the folder itself when it was cut short."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What reading has taken over a network so far. Nothing local is counted."""

    bytes: int = 0
    """Payload received, of answers that were thrown away as well."""
    requests: int = 0
    """Requests sent, retries included."""
    whole_downloads: int = 0
    """Files that had to be downloaded whole."""

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.bytes + other.bytes,
            self.requests + other.requests,
            self.whole_downloads + other.whole_downloads,
        )

    def since(self, earlier: Cost) -> Cost:
        """What was added to an earlier count."""
        return Cost(
            self.bytes - earlier.bytes,
            self.requests - earlier.requests,
            self.whole_downloads - earlier.whole_downloads,
        )


class Tree(Protocol):
    """A read-only view over files, wherever they are."""

    @property
    def subject(self) -> str:
        """As the user named it: ``vllm==0.14.0``, ``./venv``."""
        ...

    @property
    def origin(self) -> str:
        """What it is: ``wheel on the package index, read by byte ranges``, ``folder``."""
        ...

    @property
    def cost(self) -> Cost:
        """What reading it has taken so far."""
        ...

    def children(self, folder: str = "") -> Children | None:
        """The names in one folder; None: looked, no such folder. What cannot be listed is a hole."""
        ...

    def listing(self, prefix: str = "") -> Listing:
        """All files below a folder (not the folder itself), by their paths from the tree's root."""
        ...

    def read(self, path: str, start: int = 0, end: int | None = None) -> bytes:
        """The file's bytes from ``start`` to before ``end``. Raises TreeError, also when it is too large."""
        ...

    def read_many(self, paths: Sequence[str]) -> Mapping[str, bytes | Missing]:
        """These files whole, in as few round trips as possible. Every asked path is in the answer."""
        ...


def whole(tree: Tree, path: str) -> bytes:
    """One file, by ``read_many``. Raises TreeError."""
    got = tree.read_many([path])[path]
    if isinstance(got, Missing):
        raise TreeError(got)
    return got
