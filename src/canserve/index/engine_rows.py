"""One release of an engine as a row of the index: read as ``check`` reads it, everything wanted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from canserve.engines import Engine
from canserve.facts import Cause, Fact, Known, Missing
from canserve.index.rows import Release, Row, interned
from canserve.index.tables import KEPT, fact_of, names_of
from canserve.probes.build import BuildOptions, read_build
from canserve.subjects.build import NOT_ASKED, Build, Want
from canserve.trees.archive.remote import Place, Remote
from canserve.trees.index.opening import open_remote
from canserve.trees.tree import TreeError


def read_engine(engine: Engine, release: Release, options: BuildOptions, place: Place) -> Row | Missing:
    """One release, read now. Missing: it could not be had, which may pass; what cannot be understood is a row."""
    sha256 = release.sha256
    target = f"{engine.name}=={release.version}"
    reading = read_build(target, Want.everything(), options)
    if options.web is not None:
        options.web.count(reading.cost)
    build = reading.build
    if isinstance(build, Missing):
        for_good = build.cause is Cause.UNREADABLE or (
            build.cause is Cause.UNAVAILABLE and _opens(release, place)
        )
        return Row(sha256, {"unreadable": build.why}, {}) if for_good else build
    if (lost := _lost(build)) is not None:
        return lost
    if isinstance(build.registry, Missing):
        return Row(sha256, {"unreadable": build.registry.why}, {})
    return row_of(build, sha256)


def _opens(release: Release, place: Place) -> bool:
    """Whether the file can be had: what is not in it then will not be there tomorrow."""
    assert release.file is not None
    file = release.file
    try:
        open_remote(Remote(file.url, file.name, file.sha256, file.size), place, file.name).listing()
    except TreeError:
        return False
    return True


def row_of(build: Build, sha256: str) -> Row:
    """What is kept of a build."""
    names, unread = names_of(build)
    said: dict[str, Any] = {}
    for key, fact in _stated(build).items():
        if isinstance(fact, Known):
            said[key] = fact.value
    if unread:
        said["unread"] = dict(sorted(unread.items()))
    return Row(sha256, said, interned(names))


def _stated(build: Build) -> Mapping[str, Fact[str | None]]:
    return {
        "requires_python": build.identity.requires_python,
        "transformers": build.transformers.requirement,
    }


def _lost(build: Build) -> Missing | None:
    """The first fact that is missing only because bytes did not come: such a row would be wrong tomorrow."""
    facts: list[Fact[Any]] = [fact_of(build, kept) for kept in KEPT]
    facts += [*build.classes.values(), build.identity.requires]
    gone = (fact for fact in facts if isinstance(fact, Missing) and fact.cause is Cause.UNREACHED)
    return next((fact for fact in gone if fact != NOT_ASKED), None)
