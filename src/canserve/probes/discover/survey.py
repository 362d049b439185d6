"""Walking a tree for the places Python packages live in: site-packages folders and source trees.

The walk goes by likelihood, not by name order, and has a budget; what it did not get to is a hole, so that
"nothing found" is never said of a tree that was not looked through.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from canserve.trees.names import below, unreached
from canserve.trees.tree import Children, Hole, Tree

MAX_FOLDERS = 20_000
MAX_IN_ONE = 2_000
"""Folders of one folder that are entered."""
MAX_DEPTH = 9
"""``home/user/projects/one/.venv/lib/python3.12/site-packages`` is eight deep."""

_LIKELY = re.compile(
    r"usr|local|lib|lib64|opt|venv|\.venv|env|site-packages|dist-packages|python|python3(\.\d+)?|src|root|home"
    r"|app|workspace|conda|envs|.*conda3?|\.local"
)
_NOT_ENTERED = frozenset({".git", ".hg", ".svn", ".cache", "node_modules", "__pycache__"})
"""No installation is run from these: histories, caches, other languages' packages."""
_KERNEL = frozenset({"proc", "sys", "dev"})
"""At the top of a root file system: not files."""


@dataclass(frozen=True, slots=True, order=True)
class Site:
    """A folder from which Python imports installed packages."""

    path: str

    @property
    def python(self) -> str:
        """``3.12``, or ``3`` for Debian's common folder; empty where the path does not say."""
        found = re.search(r"(?:^|/)python(3(?:\.\d+)?)/(?:site|dist)-packages$", self.path)
        return found[1] if found else ""

    @property
    def prefix(self) -> str:
        """The environment: ``opt/venv`` for ``opt/venv/lib/python3.12/site-packages``."""
        found = re.search(r"^(.*?)/?(?:lib(?:64)?/python[^/]*|Lib)/(?:site|dist)-packages$", self.path)
        return found[1] if found else self.path


@dataclass(frozen=True, slots=True)
class Survey:
    """What a walk found."""

    sites: tuple[Site, ...]
    roots: tuple[tuple[str, str], ...]
    """Folder and the name of the wanted package in it, outside of any site, nearest to the top first."""
    checkouts: tuple[tuple[str, str], ...]
    """The same for source trees that are no Python package: the folder is the tree."""
    holes: tuple[Hole, ...]
    """Folders that were not or could not be looked into, and might hold packages."""
    root_file_system: bool
    """Whether the tree looks like a machine's or an image's whole file system."""


def survey(tree: Tree, packages: Collection[str], marks: Mapping[str, str] | None = None) -> Survey:
    """Find every site, and every source tree that holds one of the packages.

    ``marks``: files, from the top of a source tree, that tell it where it is no Python package; with the
    package that is meant.
    """
    return _Walk(tree, frozenset(packages), marks or {}).run()


class _Walk:
    def __init__(self, tree: Tree, packages: frozenset[str], marks: Mapping[str, str]) -> None:
        self._tree = tree
        self._packages = packages
        self._marks = marks
        self._todo: list[tuple[int, int, str]] = [(0, 0, "")]  # reluctance, depth, folder
        self._sites: list[Site] = []
        self._roots: list[tuple[str, str]] = []
        self._checkouts: list[tuple[str, str]] = []
        self._holes: list[Hole] = []

    def run(self) -> Survey:
        """Walk."""
        top = self._tree.children("")
        system = top is not None and _is_root(top)
        for _ in range(MAX_FOLDERS):
            if not self._todo:
                break
            reluctance, depth, folder = heapq.heappop(self._todo)
            found = self._tree.children(folder)
            if found is not None:
                self._visit(folder, found, depth, reluctance, system and not folder)
        if self._todo:
            self._hole("", f"the search was given up after {MAX_FOLDERS} folders")
        return Survey(
            tuple(sorted(self._sites)), _topmost(self._roots), _topmost(self._checkouts), tuple(self._holes),
            system,
        )  # fmt: skip

    def _visit(self, folder: str, found: Children, depth: int, reluctance: int, system_top: bool) -> None:
        self._holes.extend(hole for hole in found.holes if _may_hold_packages(hole))
        name = folder.rpartition("/")[2]
        if name in {"site-packages", "dist-packages"} or any(f.endswith(".dist-info") for f in found.folders):
            self._sites.append(Site(folder))
            return
        if (marked := self._marked(folder, found)) is not None:
            self._checkouts.append((folder, marked))
            return
        here = {name for name in self._packages & set(found.folders) if self._is_package(below(folder, name))}
        self._roots.extend((folder, package) for package in sorted(here))
        inner = [
            child for child in found.folders
            if child not in here and child not in _NOT_ENTERED and child not in found.linked
            and not (system_top and child in _KERNEL)
        ]  # fmt: skip
        if "__init__.py" in found.files and folder:  # inside a package no top-level package can be
            return
        if inner and depth >= MAX_DEPTH:
            self._hole(folder, f"folders more than {MAX_DEPTH} deep were not searched")
            return
        if len(inner) > MAX_IN_ONE:
            self._hole(folder, f"of {len(inner)} folders in it {MAX_IN_ONE} were searched")
        for child in inner[:MAX_IN_ONE]:
            unlikely = 0 if _LIKELY.fullmatch(child) else 3
            heapq.heappush(self._todo, (reluctance + 1 + unlikely, depth + 1, below(folder, child)))

    def _marked(self, folder: str, found: Children) -> str | None:
        """The package whose source tree this folder is, by a file in it or one folder below."""
        for mark, package in self._marks.items():
            inner, _, name = mark.rpartition("/")
            if inner in found.folders:
                below_it = self._tree.children(below(folder, inner))
                if below_it is not None and name in below_it.files:
                    return package
            elif not inner and name in found.files:
                return package
        return None

    def _is_package(self, folder: str) -> bool:
        found = self._tree.children(folder)
        return found is not None and "__init__.py" in found.files

    def _hole(self, folder: str, why: str) -> None:
        ask = "name the environment or source tree in it as the build"
        self._holes.append(Hole(folder, unreached(self._tree.subject, folder, why, ask)))


def _topmost(places: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(places, key=lambda place: (place[0].count("/"), place)))


def _is_root(top: Children) -> bool:
    """Environments have ``bin``, ``lib`` and ``etc`` too, but no ``usr``, or they say what they are."""
    return "usr" in top.folders and "pyvenv.cfg" not in top.files and "conda-meta" not in top.folders


def _may_hold_packages(hole: Hole) -> bool:
    """Links such as ``bin/python`` and sockets are holes too, but nothing is imported from there."""
    parts = hole.prefix.split("/")
    return len(parts) < 2 or parts[-2] not in {"bin", "sbin", "run", "tmp"}
