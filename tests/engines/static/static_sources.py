"""Small packages written by hand, for the tests of static reading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import dedent

from canserve.engines.sources import Hole, Sources
from canserve.engines.static.graph import ClassGraph
from canserve.facts import Missing


def sources(files: Mapping[str, str], holes: Sequence[Hole] = ()) -> Sources:
    """Files of the package ``pkg``, by path below it; ``__init__.py`` is added."""
    given = {"pkg/__init__.py": ""} | {f"pkg/{path}": dedent(text) for path, text in files.items()}

    def fetch(paths: Sequence[str]) -> Mapping[str, bytes | Missing]:
        return {path: given[path].encode() for path in paths}

    return Sources("pkg==1", given, fetch, holes)


def graph(files: Mapping[str, str], holes: Sequence[Hole] = ()) -> ClassGraph:
    """The class graph of such a package."""
    return ClassGraph(sources(files, holes), "pkg")
