"""What the index says of a release is what reading that release says now: a few releases at every run.

Another sample every time; ``CANSERVE_SEED`` repeats the one of an earlier run, ``CANSERVE_WHOLE=1`` takes every
release (`./dev bench index-agreement`).
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from functools import cache

import pytest
from packaging.version import Version

from canserve.engines import engine_named
from canserve.engines.transformers import read_table
from canserve.engines.transformers.reading import Library
from canserve.facts import Known, Missing
from canserve.index.engine_rows import read_engine
from canserve.index.places import shipped, shipped_names
from canserve.index.rebuild import build_at
from canserve.index.rows import ALARM, Release, Row, listed_before, rows_of
from canserve.index.sources import projects, releases_of
from canserve.index.tables import names_of
from canserve.index.transformers_releases import PROJECT as LIBRARY
from canserve.index.transformers_releases import ShippedTable
from canserve.index.transformers_rows import pairs_of, recorded_pairs, tables_of
from canserve.probes.build import BuildOptions
from canserve.trees.archive.remote import Place, Remote
from canserve.trees.cache import Cache
from canserve.trees.index.client import Index
from canserve.trees.index.opening import open_remote
from canserve.trees.index.pip_config import PipConfig, pip_config
from canserve.trees.view import sources_of
from canserve.trees.web.client import Web

SEED = int(os.environ["CANSERVE_SEED"])
"""Set before the workers start, so that they agree on the sample."""
WHOLE = os.environ.get("CANSERVE_WHOLE") == "1"
A_FEW = 3
"""Releases of each project."""


def sample(project: str) -> Sequence[str]:
    versions = [str(row["version"]) for row in shipped(project).releases]
    if WHOLE or len(versions) <= A_FEW:
        return versions
    return random.Random(f"{SEED} {project}").sample(versions, A_FEW)


ENGINES = [name for name in shipped_names() if name != LIBRARY]


@pytest.fixture(scope="module")
def place() -> Place:
    config = pip_config()
    assert isinstance(config, PipConfig)
    return Place(Web(config.settings, offline=False), Cache())


@cache
def rows(project: str) -> list[Row]:
    return rows_of(shipped(project))


def offered(project: str, version: str, place: Place) -> Release:
    """The release as the package index lists it now."""
    (known,) = (one for one in projects() if one.name == project)
    files = Index(pip_config(), place).offered(known.distribution, project)
    assert isinstance(files, Known)
    return releases_of(files.value, known.oldest)[Version(version)]


@pytest.mark.parametrize(("engine", "version"), [(e, version) for e in ENGINES for version in sample(e)])
@pytest.mark.network
@pytest.mark.slow
def test_an_engines_release(engine: str, version: str, place: Place) -> None:
    shelf = shipped(engine)
    at = shelf.position(version)
    reader = engine_named(engine)
    assert at is not None
    assert reader is not None
    release = offered(engine, version, place)
    listed = listed_before(shelf)[Version(version)].listed
    assert {**release.listed, "yanked": None} == {**listed, "yanked": None}

    read = read_engine(reader, release, BuildOptions())
    assert isinstance(read, Row)
    kept = rows(engine)[at]
    assert kept.said == read.said
    assert kept.names.keys() == read.names.keys()
    for table, names in read.names.items():
        assert kept.names[table] == names, table

    build = build_at(shelf, at)
    if "unreadable" in read.said:
        assert isinstance(build, Missing)
    elif ALARM not in shelf.releases[at]:
        assert isinstance(build, Known)
        assert names_of(build.value)[0] == read.names


@pytest.mark.parametrize("version", sample(LIBRARY))
@pytest.mark.network
@pytest.mark.slow
def test_a_release_of_the_library(version: str, place: Place) -> None:
    shelf = shipped(LIBRARY)
    at = shelf.position(version)
    assert at is not None
    release = offered(LIBRARY, version, place)
    assert shelf.releases[at]["sha256"] == release.sha256
    file = release.file
    assert file is not None
    sources = sources_of(
        open_remote(Remote(file.url, file.name, file.sha256, file.size), place, version), version
    )
    read = tables_of(Library(sources), recorded_pairs(shelf.tables))
    assert isinstance(read, tuple)
    assert rows(LIBRARY)[at].names == read[0]

    table = read_table(sources, version)
    assert isinstance(table, Known)
    one, every = table.value, ShippedTable(shelf)
    for model_type in one.config_types(version):
        assert every.architectures_of(version, model_type) == one.architectures_of(version, model_type)
    for name in random.Random(SEED).sample(sorted(shelf.tables["public"]), 400):
        asked = (version, "transformers", name)
        assert every.has_name(*asked) is one.has_name(*asked), name
        assert every.backend_tests(version, name) in {None, one.backend_tests(version, name)}, name


def test_the_library_answers_for_every_import_of_every_engine() -> None:
    engines = [project.name for project in projects() if project.distribution != "transformers"]
    asked = pairs_of(shipped(name) for name in engines if name in ENGINES)
    assert set(asked) <= recorded_pairs(shipped(LIBRARY).tables)


@pytest.mark.parametrize("project", shipped_names())
def test_what_is_shipped_was_made_by_these_readers(project: str) -> None:
    shelf = shipped(project)
    assert shelf.reader == next(one.made_by for one in projects() if one.name == project)
    assert [row["version"] for row in shelf.releases if ALARM in row] == []
    assert all(row["date"] and len(row["sha256"]) == 16 for row in shelf.releases)
