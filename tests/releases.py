"""Releases on the package index, as tests of readers over real releases go through them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from packaging.requirements import Requirement

from canserve.facts import Cause, Known, Missing
from canserve.trees.archive.remote import Place, Remote
from canserve.trees.cache import Cache
from canserve.trees.index.client import Index
from canserve.trees.index.opening import open_remote
from canserve.trees.index.pip_config import PipConfig, pip_config
from canserve.trees.tree import Tree
from canserve.trees.web.client import Web


def counts_in(table: str) -> dict[str, dict[str, str]]:
    """The rows of a table by their first word, each by the words of its head."""
    head, *lines = table.strip().splitlines()
    return {line.split()[0]: dict(zip(head.split(), line.split(), strict=True)) for line in lines}


def size(fact: Known[Any] | Missing) -> str:
    """How much there is of it; ``-``: the build does not say it."""
    if isinstance(fact, Missing):
        assert fact.cause is Cause.UNAVAILABLE, fact
        return "-"
    assert isinstance(fact.value, Mapping | tuple)
    return str(len(fact.value))


def _config() -> PipConfig:
    config = pip_config()
    assert isinstance(config, PipConfig), config
    return config


def releases_of(project: str, cache: Cache) -> list[str]:
    """Every release of a project, the oldest first."""
    config = _config()
    offered = Index(config, Place(Web(config.settings), cache)).offered(project, project)
    assert isinstance(offered, Known), offered
    return [str(version) for version in sorted({file.version for file in offered.value})]


@contextmanager
def opened(release: str, cache: Cache, arch: str | None = None) -> Iterator[Tree]:
    """``NAME==VERSION`` as a tree, of which only what is asked for is read."""
    config = _config()
    web = Web(config.settings)
    place = Place(web, cache)
    found = Index(config, place).find(Requirement(release), arch, release)
    assert isinstance(found, Known), found
    file = found.value.file
    try:
        yield open_remote(Remote(file.url, file.name, file.sha256, file.size), place, release)
    finally:
        web.close()
