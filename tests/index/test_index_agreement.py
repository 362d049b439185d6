"""What the shipped index says of a release is what reading that release says: a few releases at every run."""

from __future__ import annotations

import datetime
import random

import pytest
from packaging.version import Version

from canserve.engines.transformers import read_table
from canserve.engines.transformers.reading import Library
from canserve.facts import Known
from canserve.index import transformers_table
from canserve.index.gather import latest_files
from canserve.index.imports import collect
from canserve.index.places import shipped
from canserve.index.shelf import contents
from canserve.index.transformers_gather import needed_imports, tables_of
from canserve.subjects.build import TransformersTable
from canserve.trees.archive.remote import Place, Remote
from canserve.trees.cache import Cache
from canserve.trees.index.client import Index
from canserve.trees.index.opening import open_remote
from canserve.trees.index.pip_config import PipConfig, pip_config
from canserve.trees.view import sources_of
from canserve.trees.web.client import Web

pytestmark = [pytest.mark.network, pytest.mark.slow]

SEED = datetime.datetime.now(datetime.UTC).date().toordinal()
"""Another sample every day, the same one all day."""
SAMPLE = random.Random(SEED).sample(
    [str(row["version"]) for row in shipped("transformers-library").releases], 3
)


@pytest.fixture(scope="module")
def place() -> Place:
    config = pip_config()
    assert isinstance(config, PipConfig)
    return Place(Web(config.settings, offline=False), Cache())


@pytest.fixture(scope="module")
def index(place: Place) -> Index:
    return Index(pip_config(), place)


def known() -> TransformersTable:
    table = transformers_table()
    assert isinstance(table, Known)
    return table.value


@pytest.mark.parametrize("version", SAMPLE)
def test_transformers(version: str, index: Index, place: Place) -> None:
    offered = index.offered("transformers", "transformers")
    assert isinstance(offered, Known)
    file = latest_files(offered.value)[Version(version)]
    shelf = shipped("transformers-library")
    at = [row["version"] for row in shelf.releases].index(version)
    assert shelf.releases[at]["sha256"] == file.sha256

    tree = open_remote(Remote(file.url, file.name, file.sha256, file.size), place, version)
    sources = sources_of(tree, version)
    read = tables_of(Library(sources))
    assert isinstance(read, tuple)
    for table, names in read[0].items():
        assert contents(shelf, table)[at] == frozenset(names), table

    live = read_table(sources, version)
    assert isinstance(live, Known)
    one, all_of_them = live.value, known()
    for model_type in one.config_types(version):
        assert all_of_them.architectures_of(version, model_type) == one.architectures_of(version, model_type)
    for name in random.Random(SEED).sample(sorted(shelf.tables["public"]), 400):
        asked = (version, "transformers", name)
        assert all_of_them.has_name(*asked) is one.has_name(*asked), name
        assert all_of_them.backend_tests(version, name) in {None, one.backend_tests(version, name)}, name


@pytest.mark.parametrize("build", ["vllm==0.33.0", "vllm==0.14.1", "sglang==0.5.23"])
def test_what_engines_import_is_recorded(build: str) -> None:
    known = {f"{module}:{name}" for module, name in needed_imports()}
    found, unread = collect([build], ())
    assert unread == []
    assert found
    assert found <= known
