"""The message catalogue brought up to date: releases that it does not know, read through the same trees as the index."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from packaging.version import InvalidVersion, Version

from canserve.engines.sources import Sources
from canserve.facts import Cause, Missing
from canserve.index.building import Order, write
from canserve.index.messages import (
    CPP,
    NAME,
    Catalogue,
    Message,
    catalogue,
    named_in,
    packed,
    read_file,
    read_from,
)
from canserve.index.rows import Release
from canserve.index.sources import Project, releases_of
from canserve.probes.build import BuildOptions
from canserve.rules.failures import Area, knowledge
from canserve.trees.archive.remote import Place, Remote
from canserve.trees.fanout import fanout
from canserve.trees.index.client import Index
from canserve.trees.index.opening import open_remote
from canserve.trees.index.pip_config import pip_config
from canserve.trees.tree import TreeError
from canserve.trees.view import sources_of
from canserve.trees.web.client import Web
from canserve.trees.web.settings import Settings

AT_ONCE = 2
Said = list[tuple[str, int, str]]
"""File, line and template of what one release raises."""


@dataclass(frozen=True, slots=True)
class Gained:
    """What came of it for one project."""

    project: str
    read: int = 0
    """Releases."""
    new: int = 0
    """Messages that were not known."""
    troubles: Mapping[str, str] = field(default_factory=dict)
    """Releases that could not be read, and why; what is later than one that may yet be had is not read."""


def update(wanted: Sequence[Project], options: BuildOptions, order: Order) -> Iterator[Gained]:
    """Read what is new of each project, then write the file where anything was. Raises OSError."""
    areas = knowledge().areas
    mine = [each for each in wanted if any(area.engine == each.name for area in areas)]
    if not mine:
        return
    before = (read_from(order.folder) or catalogue()).messages
    found, changed = Catalogue(before), False
    config = pip_config()
    web = Web(Settings() if isinstance(config, Missing) else config.settings, options.offline)
    place = Place(web, options.cache, order.tell)
    try:
        index = Index(config, place)
        for project in mine:
            offered = index.offered(project.distribution, project.distribution)
            if isinstance(offered, Missing):
                yield Gained(project.name, troubles={project.distribution: offered.why})
                continue
            pending = _later(releases_of(offered.value, project.oldest), project.name, before)
            reader = Reader(place, [area for area in areas if area.engine == project.name], order.tell)
            gained = _one(project, pending, reader, found)
            changed = changed or gained.read > 0
            yield gained
    finally:
        web.close()
    if changed or order.whole:
        today = datetime.datetime.now(datetime.UTC).date().isoformat()
        write(order.folder / NAME, packed(found.messages, today))


def _later(listed: Mapping[Version, Release], engine: str, known: Iterable[Message]) -> list[Release]:
    """Releases after the last one of which something is known, oldest first."""
    last = max((_version(each.last) for each in known if each.engine == engine), default=Version("0"))
    return [release for version, release in listed.items() if version > last]


def _version(text: str) -> Version:
    try:
        return Version(text)
    except InvalidVersion:
        return Version("0")


def _one(project: Project, pending: Sequence[Release], reader: Reader, found: Catalogue) -> Gained:
    troubles, before, count = dict[str, str](), len(found.messages), 0
    for release, said in zip(
        pending, fanout(lambda one: reader.read(project, one), pending, AT_ONCE), strict=True
    ):
        if isinstance(said, Missing):
            troubles[str(release.version)] = said.why
            if said.cause is not Cause.UNREADABLE:
                break  # it comes the next time, and all after it
            continue
        found.add(project.name, str(release.version), said)
        count += 1
    return Gained(project.name, count, len(found.messages) - before, troubles)


@dataclass
class Reader:
    """Reads releases of one project; a file that several share is read once."""

    place: Place
    areas: Sequence[Area]
    tell: Callable[[str], None]
    _known: dict[bytes, tuple[tuple[int, str], ...]] = field(default_factory=dict)

    def read(self, project: Project, release: Release) -> Said | Missing:
        """Everything that is raised in the files of the areas."""
        self.tell(f"messages of {project.name} {release.version}")
        file, subject = release.file, f"{project.distribution}=={release.version}"
        assert file is not None
        try:
            tree = open_remote(Remote(file.url, file.name, file.sha256, file.size), self.place, subject)
            sources = sources_of(tree, subject)
        except TreeError as error:
            return error.missing
        named = dict(self._named(sources))
        sources.prefetch(named)
        if sources.failed is not None:
            return sources.failed
        said: Said = []
        for path, name in named.items():
            text = sources.text(path)
            if isinstance(text, Missing):
                return text
            said += [(name, line, template) for line, template in self._read(path, text.value or "")]
        return said

    def _named(self, sources: Sources) -> Iterator[tuple[str, str]]:
        paths = [path for suffix in (".py", *CPP) for path in sources.under("", suffix)]
        for path in paths:
            name = next((found for area in self.areas if (found := named_in(area, path)) is not None), None)
            if name is not None:
                yield path, name

    def _read(self, path: str, text: str) -> tuple[tuple[int, str], ...]:
        key = sha256(path.rpartition("/")[2].encode() + b"\0" + text.encode("utf-8", "replace")).digest()
        if key not in self._known:
            self._known[key] = read_file(path, text)
        return self._known[key]
