"""A build's files as an engine reader sees them: names, and text on demand.

Pure: how bytes come in is decided by whoever builds the view (``probes``). The reader only ever asks
for paths relative to the distribution's import root (``vllm/model_executor/models/registry.py``).
"""

from __future__ import annotations

import ast
import warnings
import zlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from canserve.engines.static.parsing import parsed
from canserve.facts import Cause, Evidence, Fact, Known, Missing

MAX_SOURCE = 8 << 20
"""Largest source file that is parsed, in bytes; the largest one in any release measured was under 1 MB."""

HELD = 8 << 20
"""Bytes of files kept as they are; what comes in beyond is kept packed. One verdict needs 1 to 3 MB of a
build, reading all of it 50 MB."""

Fetch = Callable[[Sequence[str]], Mapping[str, bytes | Missing]]
"""Give the bytes of these paths in as few round trips as possible. Every asked path is in the answer."""


class Notes(Protocol):
    """What was worked out of a file once, kept under a digest of the file for the next time."""

    def get(self, key: str) -> bytes | None:
        """What was kept; None: nothing."""
        ...

    def put(self, key: str, data: bytes) -> object:
        """Keep it, where that is possible."""
        ...


@dataclass(frozen=True, slots=True)
class Hole:
    """A folder (``vllm/models``; empty string: everything) whose names could not be listed."""

    prefix: str
    missing: Missing

    def covers(self, path: str) -> bool:
        """Whether ``path`` would lie inside this hole."""
        return not self.prefix or path == self.prefix or path.startswith(self.prefix.rstrip("/") + "/")


@dataclass(frozen=True, slots=True)
class _Packed:
    """A file as zlib holds it."""

    data: bytes


class Sources:
    """The text files of one distribution. Parsed trees are kept, so each file is parsed once."""

    def __init__(self, subject: str, paths: Iterable[str], fetch: Fetch, holes: Sequence[Hole] = ()) -> None:
        self.subject = subject
        self.holes = tuple(holes)
        self._sorted = sorted(set(paths))
        self._paths = frozenset(self._sorted)
        self._fetch = fetch
        self._files: dict[str, bytes | _Packed | Missing] = {}
        self._held = 0
        self.failed: Missing | None = None
        """Why the first file that was there could not be had; what leads to it cannot be followed either."""
        self._trees: dict[str, Fact[ast.Module | None]] = {}
        self.notes: Notes | None = None
        """Set by whoever opened the files; None: nothing is kept."""

    def has(self, path: str) -> bool:
        """Whether the file was listed. False is only proof of absence when ``gap(path)`` is None."""
        return path in self._paths

    def under(self, prefix: str, suffix: str = ".py") -> list[str]:
        """All listed paths that start with ``prefix`` and end with ``suffix``, sorted."""
        found = []
        for index in range(bisect_left(self._sorted, prefix), len(self._sorted)):
            path = self._sorted[index]
            if not path.startswith(prefix):
                break
            if path.endswith(suffix):
                found.append(path)
        return found

    def gap(self, path: str) -> Missing | None:
        """The reason why ``path`` may exist although it was not listed, if there is one."""
        if path in self._paths:
            return None
        return next((hole.missing for hole in self.holes if hole.covers(path)), None)

    def prefetch(self, paths: Iterable[str]) -> None:
        """Bring these files in together; a hint that saves round trips, never needed for the answer."""
        wanted = [p for p in dict.fromkeys(paths) if p in self._paths and p not in self._files]
        if not wanted:
            return
        fetched = dict(self._fetch(wanted))
        for path in wanted:  # one by one out of the batch: never the whole batch twice
            self._files[path] = self._kept(fetched.pop(path))

    def _kept(self, data: bytes | Missing) -> bytes | _Packed | Missing:
        if isinstance(data, Missing):
            self.failed = self.failed or data
            return data
        self._held += len(data)
        return data if self._held <= HELD else _Packed(zlib.compress(data, 1))

    def raw(self, path: str) -> Fact[bytes | None]:
        """The file's bytes; ``Known(None)`` when it is not there, ``Missing`` when it could not be read."""
        if path not in self._paths:
            return self.gap(path) or Known(None, (self.seen(path, "no such file"),))
        self.prefetch([path])
        got = self._files[path]
        if isinstance(got, _Packed):
            got = zlib.decompress(got.data)
        return got if isinstance(got, Missing) else Known(got, (self.seen(path, f"{len(got)} bytes"),))

    def text(self, path: str) -> Fact[str | None]:
        """The file as UTF-8 text; undecodable bytes become U+FFFD (comments in old releases hold some)."""
        match self.raw(path):
            case Known(bytes() as data, evidence):
                return Known(data.decode("utf-8", "replace"), evidence)
            case Known(_, evidence):
                return Known(None, evidence)
            case Missing() as missing:
                return missing

    def tree(self, path: str) -> Fact[ast.Module | None]:
        """The parsed module. Too large, not Python, nested too deeply: ``Missing``, never an exception."""
        if path not in self._trees:
            self._trees[path] = self.parse(path)
        return self._trees[path]

    def parse(self, path: str) -> Fact[ast.Module | None]:
        """Like ``tree``, but not kept: trees of thousands of files take gigabytes."""
        raw = self.raw(path)
        if isinstance(raw, Missing):
            return raw
        if raw.value is None:
            return Known(None, raw.evidence)
        if len(raw.value) > MAX_SOURCE:
            return self.unreadable(path, f"{len(raw.value)} bytes: more than {MAX_SOURCE} are not parsed")
        try:
            with warnings.catch_warnings():  # invalid escapes in other people's strings are not our talk
                warnings.simplefilter("ignore")
                return Known(parsed(raw.value.decode("utf-8-sig", "replace")), raw.evidence)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            return self.unreadable(path, f"not parseable as Python: {type(error).__name__}: {error}"[:200])

    def seen(self, path: str, saw: str, line: int | None = None) -> Evidence:
        """Evidence for a look at ``path`` (and line) of this distribution."""
        return Evidence(self.subject, f"{path}:{line}" if line else path, saw)

    def unknown_form(self, path: str, what: str) -> Missing:
        """A file whose way of saying something is not understood, unless a file could not be had: then that."""
        return self.failed or self.unreadable(path, f"unknown form: {what}")

    def unreadable(self, path: str, why: str) -> Missing:
        """A file that answered but could not be understood."""
        evidence = Evidence(self.subject, path, why, whole=False)
        return Missing(Cause.UNREADABLE, f"{path}: {why}", (evidence,))
