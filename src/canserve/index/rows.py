"""One release as it is read for the index, and all rows of a project as its shelf and back."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packaging.version import Version

from canserve.index.shelf import Shelf, expand, tabulate

if TYPE_CHECKING:  # whoever only reads an index needs no package index
    from canserve.trees.index.pages import File

OF_THE_PAGE = ("version", "date", "file", "sha256", "platforms", "yanked")
"""What of a release's row the index page says; it is written as the page says it now."""
ALARM = "shrank"
"""Why a release's registry is not believed to be whole; found anew each time."""
DIGITS = 16
"""Of a file's SHA-256 so many hexadecimal digits are kept: enough to tell files apart, and to find the right one."""
MAIN = "architectures"
"""The table that must not shrink from one release to the next."""
ENOUGH = 0.9
"""A registry with less than this share of the rows of the release before was not read whole."""


@dataclass(frozen=True, slots=True)
class Row:
    """What one file of a release says: names by table, and what is said about the release as a whole."""

    sha256: str
    said: Mapping[str, Any]
    """``transformers`` and ``requires_python``; ``unread``: table -> reason; ``unreadable``: why nothing is known."""
    names: Mapping[str, tuple[str, ...]]
    """A table that is not in it is not known; one without names is."""


@dataclass(frozen=True, slots=True)
class Release:
    """One release, as the index page lists it or once listed it."""

    version: Version
    listed: Mapping[str, Any]
    """Its part of the row, see ``OF_THE_PAGE``."""
    file: File | None
    """The one that is read; None: the page lists it no more."""

    @property
    def sha256(self) -> str:
        """Of the file."""
        return str(self.listed["sha256"])


def release_of(file: File, platforms: Iterable[str]) -> Release:
    """A release that is read from this file.

    ``platforms`` are those of all its wheels, whose code is the same; servers run Linux, so the others
    count only where there are no such wheels.
    """
    every = set(platforms)
    usual = {platform for platform in every if "linux" in platform or platform == "any"}
    listed: dict[str, Any] = {
        "version": str(file.version),
        "date": (file.uploaded or "")[:10],
        "file": file.name,
        "sha256": (file.sha256 or "")[:DIGITS],
        "platforms": sorted(usual or every),
    }
    return Release(file.version, listed | ({"yanked": True} if file.yanked is not None else {}), file)


def listed_before(shelf: Shelf) -> dict[Version, Release]:
    """A shelf's releases as the page listed them when it was made."""
    parts = [{key: row[key] for key in OF_THE_PAGE if key in row} for row in shelf.releases]
    return {(version := Version(part["version"])): Release(version, part, None) for part in parts}


def rows_of(shelf: Shelf) -> list[Row]:
    """A shelf's rows again, one a release."""
    names: list[dict[str, list[str]]] = [{table: [] for table in shelf.tables} for _ in shelf.releases]
    for table, by_name in shelf.tables.items():
        for name, text in by_name.items():
            for position in expand(text):
                names[position][table].append(name)
    return [
        Row(
            str(row["sha256"]),
            {key: value for key, value in row.items() if key not in (*OF_THE_PAGE, ALARM)},
            {t: tuple(found) for t, found in names[at].items() if found or not shelf.is_unread(t, at)},
        )
        for at, row in enumerate(shelf.releases)
    ]


def shelve(project: str, rows: Iterable[tuple[Release, Row]], tables: Iterable[str] = ()) -> Shelf:
    """Rows as a shelf without date and reader, oldest release first; ``tables`` are there even where no row has a name."""
    ordered = sorted(rows, key=lambda pair: pair[0].version)
    alarms = shrunk(ordered)
    found = tabulate([row.names for _, row in ordered])
    for table in tables:
        found.setdefault(table, {})
    unread = []
    for (_, row), alarm in zip(ordered, alarms, strict=True):
        unknown = {table for table in found if table not in row.names}
        unread.append({"unread": unknown.union(row.said.get("unread", ()), [MAIN] if alarm else [])})
    releases = [
        {**release.listed, **row.said, **({ALARM: alarm} if alarm else {})}
        for (release, row), alarm in zip(ordered, alarms, strict=True)
    ]
    named = dict(sorted(found.items()))
    return Shelf(project, "", "", tuple(releases), named, tabulate(unread).get("unread", {}))


def shrunk(ordered: Iterable[tuple[Release, Row]]) -> list[str | None]:
    """For each release why its registry is not believed to be whole; None: it is."""
    out: list[str | None] = []
    before: tuple[str, int] | None = None
    for release, row in ordered:
        count = len(row.names.get(MAIN, ()))
        unread = "unreadable" in row.said or MAIN in row.said.get("unread", {})
        if before is not None and not unread and count < ENOUGH * before[1]:
            why = f"only {count} {MAIN} were read where {before[0]} has {before[1]}"
            out.append(f"{why}: a form that is not understood")
            continue
        out.append(None)
        if not unread:
            before = (str(release.version), count)
    return out


def interned(names: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """The same names; equal ones of all rows are one in memory."""
    return {table: tuple(map(sys.intern, found)) for table, found in names.items()}
