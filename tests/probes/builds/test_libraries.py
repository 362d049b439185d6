"""Engines that others bring along as their library: they count only where there certainly is no other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from small_engine import SmallEngine, installed, lay, library, package

from canserve.engines import LIBRARIES, engines
from canserve.facts import Cause, Known, Missing
from canserve.probes.discover import Found, discover
from canserve.trees.folder import FolderTree
from canserve.trees.tree import Children, Hole

SITE = "lib/python3.12/site-packages"
NAME = "transformers"
ENGINES = (SmallEngine("eng"), SmallEngine(NAME))
LIBRARY = {**package(SITE, NAME), **installed(SITE, NAME, "4.57.3")}


def looked_at(root: Path, wanted: str | None = None) -> Found | Missing:
    return discover(FolderTree(root, "build"), ENGINES, None, wanted)


def test_which_of_the_engines_are_libraries() -> None:
    names = [engine.name for engine in engines()]
    assert set(names) >= LIBRARIES
    assert names[-1] in LIBRARIES


def test_an_environment_with_the_library_alone_is_the_library(tmp_path: Path) -> None:
    lay(tmp_path, {"pyvenv.cfg": "", **LIBRARY})
    got = looked_at(tmp_path)
    assert isinstance(got, Found)
    assert got.engine.name == NAME
    assert got.metadata.version == Known("4.57.3", got.metadata.version.evidence)


def test_beside_an_engine_it_is_no_second_engine(tmp_path: Path) -> None:
    lay(tmp_path, {"pyvenv.cfg": "", **LIBRARY, **package(SITE), **installed(SITE, "eng", "1.2")})
    got = looked_at(tmp_path)
    assert isinstance(got, Found)
    assert got.engine.name == "eng"
    assert got.notes == ()
    assert got.installed_version(NAME).evidence


def test_an_engine_in_a_source_tree_far_away_comes_first(tmp_path: Path) -> None:
    """The founding case: the engine lies under /opt, the library where Python looks for it."""
    files = {f"usr/local/{path}": text for path, text in LIBRARY.items()}
    lay(
        tmp_path,
        {"etc/os-release": "ID=debian\n", "usr/bin/true": "", **files, **package("opt/deep/eng-repo")},
    )
    got = looked_at(tmp_path)
    assert isinstance(got, Found)
    assert got.engine.name == "eng"


def test_a_package_of_that_name_inside_an_engine_is_not_it(tmp_path: Path) -> None:
    inner = {"eng/models/transformers/__init__.py": "", "eng/models/__init__.py": ""}
    lay(tmp_path, {**package(""), **inner})
    got = looked_at(tmp_path)
    assert isinstance(got, Found)
    assert (got.engine.name, got.notes) == ("eng", ())


def test_an_engine_that_could_not_be_followed_is_not_replaced_by_the_library(tmp_path: Path) -> None:
    gone = {f"{SITE}/__editable__.eng-1.2.pth": "/gone/eng\n", **installed(SITE, "eng", "1.2")}
    lay(tmp_path, {"pyvenv.cfg": "", **LIBRARY, **gone})
    assert isinstance(looked_at(tmp_path), Missing)


class Holed(FolderTree):
    """A folder in which one other folder cannot be listed."""

    def children(self, folder: str = "") -> Children | None:
        """As they are, with a hole at the top."""
        found = super().children(folder)
        if folder or found is None:
            return found
        denied = Missing(Cause.UNAVAILABLE, "opt: permission denied")
        return replace(found, holes=(*found.holes, Hole("opt", denied)))


def test_a_folder_that_could_not_be_looked_into_may_hold_an_engine(tmp_path: Path) -> None:
    lay(tmp_path, {"pyvenv.cfg": "", **LIBRARY})
    got = discover(Holed(tmp_path, "build"), ENGINES)
    assert isinstance(got, Missing)
    assert "not every folder could be looked into" in got.why


def test_whoever_names_the_library_gets_it(tmp_path: Path) -> None:
    lay(tmp_path, {"pyvenv.cfg": "", **LIBRARY, **package(SITE), **installed(SITE, "eng", "1.2")})
    got = looked_at(tmp_path, NAME)
    assert isinstance(got, Found)
    assert got.engine.name == NAME


def test_where_there_is_none_all_are_named(tmp_path: Path) -> None:
    lay(tmp_path, {"pyvenv.cfg": "", **library(SITE, "numpy", "2.0")})
    got = looked_at(tmp_path)
    assert isinstance(got, Missing)
    assert got.cause is Cause.UNAVAILABLE
    assert got.why == "no eng or transformers in it"
