"""One reading of one build: its files, how a fact is cited, and why one cannot be had."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import TypeVar

from canserve.engines.sources import Sources
from canserve.engines.static.evaluate import Constants, Namespace
from canserve.facts import Cause, Evidence, Fact, Missing
from canserve.subjects.build import Site, Want

T = TypeVar("T")
R = TypeVar("R")


class ReadingError(Exception):
    """A fact that cannot be had from this build; ``missing`` says why."""

    def __init__(self, missing: Missing) -> None:
        super().__init__(missing.why)
        self.missing = missing


class Citing:
    """How a look at a build's files is cited."""

    sources: Sources

    def seen(self, at: Site, saw: str) -> Evidence:
        """Evidence for a look at a place of this build."""
        return self.sources.seen(at.file, saw, at.line or None)

    def unknown(self, path: str, what: str) -> ReadingError:
        """It stands where it should, in a form that is not understood."""
        return ReadingError(self.sources.unknown_form(path, what))


class BuildReading(Citing):
    """What the readers of an engine work with; its methods raise ReadingError."""

    def __init__(self, sources: Sources, want: Want, constants: Constants) -> None:
        self.sources = sources
        self.want = want
        self._constants = constants

    # -- files

    def has(self, path: str) -> bool:
        """Whether the build has the file; fails where that could not be looked up."""
        if gap := self.sources.gap(path):
            raise ReadingError(gap)
        return self.sources.has(path)

    def first(self, paths: Sequence[str]) -> str | None:
        """The first of these files that the build has; None when none exists."""
        return next((path for path in paths if self.has(path)), None)

    def text(self, path: str) -> str:
        """A file's text; empty when it does not exist."""
        fact = self.sources.text(path)
        if isinstance(fact, Missing):
            raise ReadingError(fact)
        return fact.value or ""

    def tree(self, path: str) -> ast.Module:
        """A file's syntax tree; an empty one when it does not exist."""
        fact = self.sources.tree(path)
        if isinstance(fact, Missing):
            raise ReadingError(fact)
        return fact.value or ast.Module([], [])

    def constants(self, path: str) -> Namespace:
        """A file's module-level constants."""
        fact = self._constants.of(path)
        if isinstance(fact, Missing):
            raise ReadingError(fact)
        if fact.value is None:
            raise self.unknown(path, "no such file")
        return fact.value

    # -- answers

    def unavailable(self, why: str, ask: str, path: str) -> ReadingError:
        """This build leaves it to something outside of itself, or does not say."""
        return ReadingError(Missing(Cause.UNAVAILABLE, why, (self.sources.seen(path, why),), ask))


def attempt(read: Callable[[R], Fact[T]], reading: R) -> Fact[T]:
    """The fact, or why it is missing."""
    try:
        return read(reading)
    except ReadingError as error:
        return error.missing
    except RecursionError:
        return Missing(Cause.UNREADABLE, "the sources are nested too deeply to be followed")
