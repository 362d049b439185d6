"""One reading of one llama.cpp: where its source tree lies, its C++ and Python files, and how a fact is cited."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import TypeVar

from canserve.engines.cpp.text import Code, CppError, read
from canserve.engines.reading import Citing, ReadingError
from canserve.engines.reading import attempt as attempted
from canserve.engines.sources import Sources
from canserve.facts import Cause, Fact, Known, Missing
from canserve.subjects.build import Site

T = TypeVar("T")

PACKAGE = "llama_cpp"
CARRIED = "vendor/llama.cpp"
"""Where the source distribution of the Python package has the tree."""
MARKS = ("src/llama-arch.cpp", "src/llama.cpp", "llama.cpp")
"""Files that only the source tree has; until June 2024 everything was in one at its top."""


class Reading(Citing):
    """What every reader of this engine works with; its methods raise ReadingError."""

    def __init__(self, sources: Sources, version: str = "X") -> None:
        """``version``: of the package, where it is known."""
        self.sources = sources
        self._version = version
        self._codes: dict[str, Code] = {}
        self.root = root(sources)
        """Prefix of the source tree's files, with a slash at its end; None: it is not there."""

    # -- files

    def path(self, name: str) -> str:
        """A file of the source tree as the sources name it."""
        if self.root is None:
            raise ReadingError(self.missing_tree())
        return self.root + name

    def first(self, names: Sequence[str]) -> str | None:
        """The first of these files that the tree has, by its whole path."""
        for name in names:
            path = self.path(name)
            if self.sources.has(path):
                return path
            if gap := self.sources.gap(path):
                raise ReadingError(gap)
        return None

    def existing(self, names: Sequence[str]) -> list[str]:
        """Those of these files that the tree has."""
        return [path for name in names if (path := self.first([name])) is not None]

    def code(self, path: str) -> Code:
        """A C++ file with comments and strings taken out."""
        if path not in self._codes:
            fact = self.sources.text(path)
            if isinstance(fact, Missing):
                raise ReadingError(fact)
            try:
                self._codes[path] = read(fact.value or "")
            except CppError as error:
                raise ReadingError(self.sources.unreadable(path, f"not readable as C++: {error}")) from None
        return self._codes[path]

    def tree(self, path: str) -> ast.Module:
        """A Python file's syntax tree."""
        fact = self.sources.parse(path)
        if isinstance(fact, Missing):
            raise ReadingError(fact)
        return fact.value or ast.Module([], [])

    # -- answers

    def known(self, value: T, saw: str, *places: Site) -> Known[T]:
        """A fact with the places in the build that gave it."""
        return Known(value, tuple(self.seen(at, saw) for at in places))

    def missing_tree(self) -> Missing:
        """Installed from a wheel (there are only libraries then), or a release that lacks its submodule."""
        path = f"{CARRIED}/{MARKS[0]}"
        if gap := self.sources.gap(path):
            return gap
        why = "llama.cpp's own sources are not in it: an installation holds its libraries only"
        seen = (self.sources.seen(CARRIED, "no such folder"),)
        release = f"llama-cpp-python=={self._version}"
        ask = f"name the release ({release}), whose source distribution holds them, or a source tree"
        return Missing(Cause.UNAVAILABLE, why, seen, ask)


def root(sources: Sources) -> str | None:
    """Prefix of the source tree's files; None: there is no such tree."""
    for prefix in (f"{CARRIED}/", ""):
        if any(sources.has(prefix + mark) for mark in MARKS):
            return prefix
    return None


def attempt(read_fact: Callable[[Reading], Fact[T]], reading: Reading) -> Fact[T]:
    """The fact, or why it is missing."""
    try:
        return attempted(read_fact, reading)
    except CppError as error:
        return Missing(Cause.UNREADABLE, f"not readable as C++: {error}")
