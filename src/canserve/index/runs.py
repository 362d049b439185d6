"""Runs of neighbouring releases: what the index says of a name, with nothing filled in between."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from packaging.version import Version

from canserve.index.shelf import Shelf, expand


@dataclass(frozen=True, slots=True)
class Release:
    """One indexed release of an engine."""

    version: str
    date: str
    """Day of its upload, ISO 8601; empty: not stated."""
    yanked: bool = False
    """Whether its authors withdrew it."""
    file: str = ""
    """The file that was read for the index."""
    sha256: str = ""
    """Of that file, in hexadecimal."""

    @property
    def evidence(self) -> str:
        """What was read of it."""
        return f"{self.file} sha256:{self.sha256[:16]}"


def settled(release: Release) -> bool:
    """Whether it is one that people install: no pre-release, and not withdrawn."""
    return not release.yanked and not Version(release.version).is_prerelease


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring releases that answer alike; ``first`` and ``last`` may be the same one."""

    first: Release
    last: Release
    count: int


@dataclass(frozen=True, slots=True)
class Column:
    """One engine's releases, oldest first, as the index has them."""

    engine: str
    built: str
    """UTC date of the index."""
    releases: tuple[Release, ...]


def column_of(shelf: Shelf) -> Column:
    """The releases of a shelf."""
    return Column(shelf.project, shelf.built, tuple(map(_release, shelf.releases)))


def _release(row: Mapping[str, Any]) -> Release:
    return Release(
        version=str(row["version"]),
        date=str(row.get("date") or ""),
        yanked=bool(row.get("yanked")),
        file=str(row.get("file") or ""),
        sha256=str(row.get("sha256") or ""),
    )


def runs_of(column: Column, positions: Iterable[int]) -> tuple[Run, ...]:
    """Positions as runs of releases, oldest first."""
    found: list[list[int]] = []
    for position in sorted(set(positions)):
        if found and position == found[-1][1] + 1:
            found[-1][1] = position
        else:
            found.append([position, position])
    return tuple(Run(column.releases[a], column.releases[b], b - a + 1) for a, b in found)


def listed(column: Column, text: str) -> tuple[Run, ...]:
    """Runs as a shelf writes them."""
    return runs_of(column, expand(text))
