"""Runs of neighbouring releases: what the index says of a name, with nothing filled in between."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from canserve.index.shelf import Shelf, expand


@dataclass(frozen=True, slots=True)
class Release:
    """One indexed release of an engine."""

    version: str
    date: str
    """Day of its upload, ISO 8601; empty: not stated."""
    yanked: bool = False
    """Whether its authors withdrew it."""


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
    return Column(
        shelf.project,
        shelf.built,
        tuple(
            Release(str(row["version"]), str(row.get("date") or ""), bool(row.get("yanked")))
            for row in shelf.releases
        ),
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
