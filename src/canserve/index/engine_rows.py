"""One release of an engine as a row of the index: read as ``check`` reads it, everything wanted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from canserve.engines import Engine
from canserve.facts import Fact, Known, Missing
from canserve.index.rows import Release, Row, interned
from canserve.index.tables import KEPT, fact_of, names_of
from canserve.probes.build import BuildOptions, read_build
from canserve.subjects.build import Build, Want

WANT = replace(Want.everything(), gpu_code=False, stack=False)
"""Compiled code would be most of what came over the network; it is read of the one build that is chosen."""


def read_engine(engine: Engine, release: Release, options: BuildOptions) -> Row | Missing:
    """One release, read now. Missing: it could not be had, which may pass; what cannot be understood is a row."""
    sha256 = release.sha256
    reading = read_build(f"{engine.name}=={release.version}", WANT, options)
    if options.web is not None:
        options.web.count(reading.cost)
    build = reading.build
    if isinstance(build, Missing):
        return build if _may_pass(build, release) else Row(sha256, {"unreadable": build.why}, {})
    if (lost := _lost(build, release)) is not None:
        return lost
    if isinstance(build.registry, Missing):
        return Row(sha256, {"unreadable": build.registry.why}, {})
    return row_of(build, sha256)


def _may_pass(missing: Missing, release: Release) -> bool:
    """Whether the file itself, or a page, could not be had; what is not in a file will not be there tomorrow."""
    file = release.listed["file"]
    return any(not look.whole and (look.how == file or "://" in look.how) for look in missing.evidence)


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


def _lost(build: Build, release: Release) -> Missing | None:
    """The first fact that is missing only because bytes did not come: such a row would be wrong tomorrow."""
    facts: list[Fact[Any]] = [fact_of(build, kept) for kept in KEPT]
    facts += [*build.classes.values(), build.identity.requires]
    missing = (fact for fact in facts if isinstance(fact, Missing))
    return next((fact for fact in missing if _may_pass(fact, release)), None)
