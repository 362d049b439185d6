"""A model's files as its readers see them: names, bounded reads, parsed JSON; each look with its evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from canserve.facts import Cause, Evidence, Fact, Known, Missing
from canserve.probes.model.documents import MAX_BYTES, Document, Unreadable, parse
from canserve.trees.names import printable
from canserve.trees.tree import Listing, TreeError

UNKNOWN_SIZE = -1
"""The size of an entry whose origin does not tell it."""

MAX_PREFETCH = 2 << 20
"""Largest file that is fetched before it is asked for, in bytes."""

Span = tuple[str, int, int]
"""A file's name, and a range of its bytes."""


class Repository(Protocol):
    """Where a model's files lie: a folder, a snapshot in the Hub's cache, the Hub itself."""

    subject: str
    kind: str
    """``hub``, ``folder``, ``config`` or ``gguf``."""
    revision: Fact[str | None]
    absent: frozenset[str]
    """Names known not to exist, although the listing has holes."""

    def listing(self) -> Listing:
        """Names with sizes, and the holes where names could not be listed."""
        ...

    def read(self, path: str, start: int = 0, end: int | None = None) -> bytes:
        """Bytes of a listed file; fewer than asked for only at its end. Raises TreeError."""
        ...

    def read_spans(self, spans: Sequence[Span]) -> Sequence[bytes | Missing]:
        """Several reads, together where that is faster; in the order asked for."""
        ...


class Files:
    """The files of one model. Parsed documents are kept, so that each file is read once."""

    def __init__(self, repository: Repository) -> None:
        self.subject = repository.subject
        self.kind = repository.kind
        self.revision = repository.revision
        self._repository = repository
        listing = repository.listing()
        self.config_name = next(iter(listing.entries), "") if self.kind == "config" else "config.json"
        """Which file the config is: a bare one may have any name."""
        self._entries = listing.entries
        self.holes = listing.holes
        self._documents: dict[str, Fact[Document | None]] = {}
        self._fetched: dict[str, bytes | Missing] = {}

    @property
    def names(self) -> Iterable[str]:
        """All listed names, relative, with forward slashes."""
        return self._entries.keys()

    def listed(self) -> Fact[tuple[str, ...]]:
        """All names as a fact; Missing where nothing could be listed, or only one file was named."""
        hole = next((hole.missing for hole in self.holes if not hole.prefix), None)
        if hole is not None and (self.kind in {"config", "gguf"} or not self._entries):
            return hole
        return Known(
            tuple(sorted(self._entries)),
            (self.seen("file list", f"{len(self._entries)} files", whole=not self.holes),),
        )

    def has(self, name: str) -> bool:
        """Whether the file was listed. False proves absence only when ``gap(name)`` is None."""
        return name in self._entries

    def size(self, name: str) -> int | None:
        """Bytes of a listed file; None where the listing does not say."""
        entry = self._entries.get(name)
        return None if entry is None or entry.size == UNKNOWN_SIZE else entry.size

    def gap(self, name: str) -> Missing | None:
        """Why ``name`` may exist although it was not listed."""
        if name in self._entries or name in self._repository.absent:
            return None
        return next((hole.missing for hole in self.holes if hole.covers(name)), None)

    def matching(self, test: Callable[[str], bool]) -> Fact[tuple[str, ...]]:
        """Names at the top level that pass a test.

        Missing: one that passes could not be looked at, or none does and the listing has a hole there.
        """
        found = tuple(sorted(name for name in self._entries if "/" not in name and test(name)))
        for hole in self.holes:
            if (hole.prefix and "/" not in hole.prefix and test(hole.prefix)) or not (hole.prefix or found):
                return hole.missing
        whole = all(hole.prefix for hole in self.holes)
        shown = printable(", ".join(found[:5])) or "none"
        return Known(found, (self.seen("file list", shown, whole),))

    def read(self, name: str, limit: int = MAX_BYTES) -> Fact[bytes | None]:
        """A whole file; ``Known(None)``: not there; Missing: larger than ``limit``, or not readable."""
        if name not in self._entries:
            return self.gap(name) or Known(None, (self.seen(name, "no such file"),))
        size = self.size(name)
        if size is not None and size > limit:
            return self.unreadable(name, Unreadable(f"{size} bytes, larger than the {limit} that are read"))
        piece = self._fetched.pop(name, None)
        if piece is None:
            piece = b"" if size == 0 else self.piece(name, 0, limit + 1)
        if isinstance(piece, Missing):
            return piece
        if len(piece) > limit:
            return self.unreadable(name, Unreadable(f"larger than the {limit} bytes that are read"))
        return Known(piece, (self.seen(name, f"{len(piece)} bytes"),))

    def prefetch(self, names: Iterable[str]) -> None:
        """Bring small files in together; saves round trips, never needed for the answer."""
        there = [name for name in names if 0 < (self.size(name) or 0) <= MAX_PREFETCH]
        spans = [(name, 0, MAX_PREFETCH + 1) for name in there]
        for name, piece in zip(there, self.pieces(spans), strict=True):
            if isinstance(piece, Missing) or len(piece) <= MAX_PREFETCH:  # else it was cut here
                self._fetched[name] = piece

    def piece(self, name: str, start: int, end: int) -> bytes | Missing:
        """Bytes of a listed file from ``start`` to ``end``, fewer only at its end."""
        try:
            return self._repository.read(name, start, end)
        except TreeError as error:
            return error.missing

    def pieces(self, spans: Sequence[Span]) -> Sequence[bytes | Missing]:
        """Several pieces, fetched together; in the order asked for."""
        return self._repository.read_spans(spans)

    def document(self, name: str) -> Fact[Document | None]:
        """A JSON file, parsed; ``Known(None)``: not there."""
        if name not in self._documents:
            self._documents[name] = self._parse(name)
        return self._documents[name]

    def _parse(self, name: str) -> Fact[Document | None]:
        raw = self.read(name)
        if isinstance(raw, Missing):
            return raw
        if raw.value is None:
            return Known(None, raw.evidence)
        try:
            document = parse(raw.value)
        except Unreadable as error:
            return self.unreadable(name, error)
        if document.repeated:
            note = f"stands twice, the last one counts: {', '.join(document.repeated)}"
            return Known(document, (*raw.evidence, self.seen(name, note)))
        return Known(document, raw.evidence)

    def mapping(self, name: str) -> Fact[Mapping[str, Any] | None]:
        """A JSON file that must hold a table; ``Known(None)``: not there."""
        found = self.document(name)
        if isinstance(found, Missing):
            return found
        if found.value is None:
            return Known(None, found.evidence)
        if not isinstance(found.value.value, dict):
            kind = type(found.value.value).__name__
            return self.unreadable(name, Unreadable(f"holds a {kind}, not a table"))
        return Known(found.value.value, found.evidence)

    def seen(self, how: str, saw: str, whole: bool = True) -> Evidence:
        """Evidence for a look at this model."""
        return Evidence(self.subject, how, saw, whole)

    def unreadable(self, name: str, error: Unreadable) -> Missing:
        """A file that answered but could not be understood."""
        evidence = self.seen(name, error.why, whole=False)
        return Missing(error.cause, f"{printable(name)}: {error.why}", (evidence,), error.ask)

    def unavailable(self, name: str, why: str, ask: str | None = None) -> Missing:
        """A file that should be there and is not."""
        return self.unreadable(name, Unreadable(why, Cause.UNAVAILABLE, ask))
