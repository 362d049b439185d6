"""The projects of the index: which distribution each is, and how one release of it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from packaging.requirements import Requirement
from packaging.version import Version

from canserve.engines import Engine, engines
from canserve.engines.transformers.names import PACKAGE
from canserve.engines.transformers.outline import Outline
from canserve.facts import Missing
from canserve.index.engine_rows import read_engine
from canserve.index.rows import Release, Row, release_of
from canserve.index.transformers_releases import PROJECT as LIBRARY
from canserve.index.transformers_rows import OLDEST, Pair, read_library, recorded_pairs, with_answers
from canserve.probes.build import BuildOptions
from canserve.trees.archive.remote import Place
from canserve.trees.index.choose import Choice, choose
from canserve.trees.index.pages import File

ENGINES = "4"
"""Number of the engines' readers. It is raised whenever one of them may read a release differently than before, or
more of it: all rows are read anew then."""
TRANSFORMERS = "3"
"""The same of the library's reader."""
ReadOne = Callable[[Release, Row | None], Row | Missing]
"""Reads a release; where it was read before and its row does not answer all that is asked now, that row is given."""


@dataclass(frozen=True, slots=True)
class Means:
    """With what releases are read."""

    options: BuildOptions
    place: Place
    pairs: Callable[[], frozenset[Pair]]
    """What the library's index has to answer beyond its public names."""
    outlines: dict[bytes, Outline] = field(default_factory=dict)


def _everything(names: Mapping[str, Iterable[str]], means: Means) -> bool:
    del names, means
    return True


@dataclass(frozen=True, slots=True)
class Project:
    """One project of the index."""

    name: str
    distribution: str
    """On the package index."""
    made_by: str
    """Number of its reader."""
    reader: Callable[[Means], ReadOne]
    oldest: Version = field(default=Version("0"))
    answers: Callable[[Mapping[str, Iterable[str]], Means], bool] = _everything
    """Whether a row, or some release of a shelf, by its tables, answers all that is asked now."""


def projects() -> tuple[Project, ...]:
    """All engines that have releases, and the library of model classes, whose pairs depend on theirs."""
    found = [Project(e.name, e.distribution, ENGINES, _engine_reader(e)) for e in engines() if e.distribution]
    return (*found, Project(LIBRARY, PACKAGE, TRANSFORMERS, _library_reader, OLDEST, _answers))


def _engine_reader(engine: Engine) -> Callable[[Means], ReadOne]:
    return lambda means: lambda release, _: read_engine(engine, release, means.options)


def _library_reader(means: Means) -> ReadOne:
    def read(release: Release, before: Row | None) -> Row | Missing:
        if before is not None:
            return with_answers(before, release, means.place, means.pairs())
        return read_library(release, means.place, means.pairs(), means.outlines)

    return read


def _answers(names: Mapping[str, Iterable[str]], means: Means) -> bool:
    return means.pairs() <= recorded_pairs(names)


def releases_of(files: Iterable[File], oldest: Version) -> dict[Version, Release]:
    """The releases among an index page's files, oldest first, each with the file that ``check`` would read."""
    by_version: dict[Version, list[File]] = {}
    for file in files:
        if file.version >= oldest:
            by_version.setdefault(file.version, []).append(file)
    out = {}
    for version, group in sorted(by_version.items()):
        choice = choose(group, Requirement(f"x=={version}"))
        if isinstance(choice, Choice) and choice.file.sha256:
            out[version] = release_of(choice.file, (p for file in group for p in file.platforms))
    return out
