"""Making the index: what is new is read, every release is kept at once, the whole is written at the end.

Whenever it is stopped, the old index stays as it was, and the next run goes on where this one ended.
"""

from __future__ import annotations

import contextlib
import datetime
import gc
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path

from packaging.version import Version

from canserve.engines.static.collection import no_collection
from canserve.engines.transformers.names import PACKAGE
from canserve.facts import Cause, Fact, Missing
from canserve.index.journal import Journal
from canserve.index.places import SUFFIX, loaded, read_from, user_folder, worth
from canserve.index.rows import ALARM, Release, Row, listed_before, rows_of, shelve
from canserve.index.shelf import Shelf, ShelfError, pack
from canserve.index.sources import Means, Project, ReadOne, projects, releases_of
from canserve.index.transformers_rows import Pair, pairs_of
from canserve.probes.build import BuildOptions
from canserve.trees.archive.remote import Place
from canserve.trees.fanout import fanout
from canserve.trees.index.client import Index
from canserve.trees.index.pages import File
from canserve.trees.index.pip_config import pip_config
from canserve.trees.tree import Cost
from canserve.trees.web.client import Web
from canserve.trees.web.settings import Settings

AT_ONCE = 2
"""Releases: while one is parsed, another one's files come; each fetches a few ranges at once by itself."""
PATIENCE = 3
"""Releases in a row that cannot be had, after which the package index is left in peace."""


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be done."""

    folder: Path
    """Where the index is written."""
    fresh: bool = False
    """Whether every release is read anew."""
    whole: bool = False
    """Whether a file is written even where nothing is better in it than in those that are used already."""
    tell: Callable[[str], None] = print


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one project."""

    project: str
    shelf: Shelf | None
    """None: nothing could be read, and there was nothing before."""
    path: Path | None
    """The file that was written; None: nothing has changed."""
    read: int = 0
    """Releases that were read now."""
    lacking: Mapping[str, str] = field(default_factory=dict)
    """Releases that could not be had, and why; they are tried again next time."""
    odd: Mapping[str, str] = field(default_factory=dict)
    """Releases read now that could not be understood, and why."""
    failed: Missing | None = None
    """Why the package index could not be asked."""
    cost: Cost = field(default_factory=Cost)
    """What came over the network for it."""


def make_all(wanted: Sequence[Project], options: BuildOptions, order: Order) -> Iterator[Outcome]:
    """The index of several projects, one after the other. Raises OSError where it cannot be written."""
    config = pip_config()
    web = Web(Settings() if isinstance(config, Missing) else config.settings, options.offline)
    place = Place(web, options.cache, order.tell)
    index = Index(config, place)
    made: dict[str, Shelf] = {}
    options = replace(options, config=config, web=web)
    try:
        names = list(dict.fromkeys(project.distribution for project in wanted))
        offers = dict(zip(names, fanout(lambda name: index.offered(name, name), names), strict=True))
        asked = Cost()
        for project in wanted:
            means = Means(options, place, cache(partial(_pairs, made, order)))
            outcome = make(project, offers[project.distribution], means, order)
            if outcome.shelf is not None:
                made[project.name] = outcome.shelf
            yield replace(outcome, cost=web.cost.since(asked))
            asked = web.cost
    finally:
        web.close()


def _pairs(made: Mapping[str, Shelf], order: Order) -> frozenset[Pair]:
    """What the library is asked: all that the engines' indexes import."""
    names = [project.name for project in projects() if project.distribution != PACKAGE]
    shelves = (made.get(name) or existing(name, order.folder) for name in names)
    return frozenset(pairs_of(shelf for shelf in shelves if shelf is not None))


def make(project: Project, offered: Fact[tuple[File, ...]], means: Means, order: Order) -> Outcome:
    """Bring one project's index up to date, or make it anew. Raises OSError where it cannot be written."""
    before = existing(project.name, order.folder)
    if isinstance(offered, Missing):
        return Outcome(project.name, before, None, failed=offered)
    listed = releases_of(offered.value, project.oldest)
    old = before if before is not None and before.reader == project.made_by and not order.fresh else None
    path = order.folder / f"{project.name}{SUFFIX}"
    absent = _unusable(order, project.name)
    if old is not None and not absent and _nothing_new(old, listed) and project.answers(old.tables, means):
        return Outcome(project.name, before, None)
    journal = Journal(user_folder(), project.name, project.made_by)
    kept = ({} if old is None else {row.sha256: row for row in rows_of(old)}) | journal.rows()
    done = {sha256 for sha256, row in kept.items() if project.answers(row.names, means)}
    reading = Reading(project, project.reader(means), journal, order.tell, kept)
    with no_collection():  # the newest first, for they matter most
        reading.read([release for release in reversed(listed.values()) if release.sha256 not in done])
    kept = kept | reading.rows
    rows = _rows(kept, listed, {} if old is None else listed_before(old))
    outcome = Outcome(project.name, before, None, len(reading.rows), reading.lacking)
    if reading.gone or not rows:
        return outcome
    made = replace(shelve(project.name, rows), reader=project.made_by)
    shelf = _dated(made, before)
    if changed := absent or before is None or shelf != before:
        write(path, pack(shelf))
    journal.drop()
    odd = _odd(shelf, {row.sha256 for row in reading.rows.values()})
    return replace(outcome, shelf=shelf, path=path if changed else None, odd=odd)


def existing(project: str, folder: Path) -> Shelf | None:
    """The best index of a project, of those in the folder and those that are used; None where there is none."""
    found: list[Shelf | None] = []
    with contextlib.suppress(ShelfError):  # what is damaged is written anew
        found.append(read_from(folder, project))
    with contextlib.suppress(ShelfError):
        found.append(loaded(project))
    return max((shelf for shelf in found if shelf is not None), key=worth, default=None)


@dataclass
class Reading:
    """The releases of one project as they are read."""

    project: Project
    read_one: ReadOne
    journal: Journal
    tell: Callable[[str], None]
    before: Mapping[str, Row]
    """By digest, rows that were read before; those of pending releases do not answer all that is asked."""
    rows: dict[str, Row] = field(default_factory=dict)
    lacking: dict[str, str] = field(default_factory=dict)
    gone: bool = False
    """Whether the package index is taken to be gone."""
    _started: int = 0
    _failed: int = 0

    def read(self, pending: Sequence[Release]) -> None:
        """All of them, a few at once; each is kept as soon as it was read."""
        fanout(lambda release: self._one(release, len(pending)), pending, AT_ONCE)

    def _one(self, release: Release, count: int) -> None:
        if self.gone:
            return
        self._started += 1
        self.tell(f"{self.project.name} {release.version} ({self._started} of {count})")
        row = self.read_one(release, self.before.get(release.sha256))
        gc.collect()  # it is kept out while trees are parsed, and some of them hold cycles
        if isinstance(row, Missing):
            self.lacking[str(release.version)] = row.why
            self._failed += row.cause is not Cause.UNREADABLE
            self.gone = self._failed >= PATIENCE
            return
        self._failed = 0
        self.journal.add(row)
        self.rows[row.sha256] = row


def _unusable(order: Order, project: str) -> bool:
    """Whether a file has to be written in any case: there is none though one was asked for, or it is damaged."""
    try:
        return read_from(order.folder, project) is None and order.whole
    except ShelfError:
        return True


def _rows(
    kept: Mapping[str, Row], listed: Mapping[Version, Release], before: Mapping[Version, Release]
) -> list[tuple[Release, Row]]:
    """Each release with its row: as listed now, else as before; what is listed no more was read all the same."""
    rows = []
    for version in {**before, **listed}:
        found = (
            release for by_version in (listed, before) if (release := by_version.get(version)) is not None
        )
        if (release := next((one for one in found if one.sha256 in kept), None)) is not None:
            rows.append((release, kept[release.sha256]))
    return rows


def _nothing_new(before: Shelf, listed: Mapping[Version, Release]) -> bool:
    """Whether the index has all these releases already, as the page lists them now."""
    known = listed_before(before)
    return all(v in known and known[v].listed == release.listed for v, release in listed.items())


def _dated(shelf: Shelf, before: Shelf | None) -> Shelf:
    """The date of today, unless nothing but the date has changed."""
    if before is not None and replace(shelf, built=before.built) == before:
        return before
    return replace(shelf, built=datetime.datetime.now(datetime.UTC).date().isoformat())


def _odd(shelf: Shelf, read: set[str]) -> dict[str, str]:
    """What was read now and could not be understood."""
    odd = {}
    for row in shelf.releases:
        why = row.get("unreadable") or row.get(ALARM)
        if why and row["sha256"] in read:
            odd[str(row["version"])] = str(why)
    return odd


def write(path: Path, data: bytes) -> None:
    """The whole file or none of it. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(path)
    finally:
        Path(name).unlink(missing_ok=True)
