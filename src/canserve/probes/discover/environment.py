"""One Python environment: what is installed in it, and where the code of an installed package lies."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from packaging.utils import canonicalize_name

from canserve.facts import Fact, Known, Missing
from canserve.probes.discover.links import direct_url, egg_link, finder_mapping, joined, pth
from canserve.probes.discover.look import Look
from canserve.probes.discover.survey import Site
from canserve.trees.names import below, unreached
from canserve.trees.tree import Tree
from canserve.trees.view import Part

MAX_PTH = 200
_INNER = ("", "python", "src")
"""Folders of a checkout from which its package is imported."""

Outside = Callable[[str], Tree | None]
"""Open a folder of this machine that an environment names by its absolute path; None: it is not here."""


@dataclass(frozen=True, slots=True)
class Place:
    """A folder in a tree."""

    look: Look
    path: str

    def __str__(self) -> str:
        return self.path or "."


@dataclass(frozen=True, slots=True)
class Located:
    """An installed (or at least importable) package."""

    package: Place
    info: Place | None
    """Its ``.dist-info`` or ``.egg-info`` folder."""
    site: Site | None
    how: str
    """``installed in lib/python3.12/site-packages``, ``editable install of opt/vllm``."""
    checkout: bool = False
    """Whether ``package`` is a source tree that is no Python package."""


class Environment:
    """A site, with the sites that the same interpreter reads beside it."""

    def __init__(self, look: Look, sites: Sequence[Site], outside: Outside | None) -> None:
        self.site = sites[0]
        self._sites = sites
        self._look = look
        self._outside = outside
        self.unfollowed: dict[str, None] = {}
        """Folders that ``.pth`` files name and that are not in the tree, in order."""

    def locate(self, package: str, distribution: str) -> Fact[Located | None]:
        """Where the package's code is. ``Known(None)``: looked, it is not installed here."""
        for site in self._sites:
            found = self._in_site(site, package, distribution)
            if isinstance(found, Missing) or found.value is not None:
                return found
        return Known(None, tuple(self._look.seen(site.path, f"no {package}") for site in self._sites))

    @property
    def places(self) -> tuple[Place, ...]:
        """The folders it imports from, in order."""
        return tuple(Place(self._look, site.path) for site in self._sites)

    @property
    def real(self) -> bool:
        """Whether it is an environment, and not one unpacked (or packed) distribution."""
        if self.site.path.rpartition("/")[2] in {"site-packages", "dist-packages"}:
            return True
        return sum(path.endswith(".dist-info") for path in self._infos(self.site)) > 1

    @property
    def kind(self) -> str:
        """``virtual environment``, or ``Python environment``."""
        virtual = self._look.is_file(below(self.site.prefix, "pyvenv.cfg"))
        return "virtual environment" if virtual else "Python environment"

    def entry_points(self, limit: int) -> list[Part]:
        """The entry points of everything that is installed here."""
        infos = [path for site in self._sites for path in self._infos(site) if path.endswith(".dist-info")]
        files = (below(path, "entry_points.txt") for path in infos[:limit])
        return [
            Part(self._look.tree, path, "/".join(path.split("/")[-2:]), single=True)
            for path in files if self._look.is_file(path)
        ]  # fmt: skip

    def _infos(self, site: Site) -> Iterator[str]:
        found = self._look.children(site.path)
        for name in found.folders if found else ():
            if name.endswith((".dist-info", ".egg-info")):
                yield below(site.path, name)

    def _info(self, site: Site, distribution: str) -> Place | None:
        """The metadata folder of a distribution; the newest by name where several were left behind."""
        wanted = canonicalize_name(distribution)
        fits = [path for path in self._infos(site) if canonicalize_name(_name_of(path)) == wanted]
        return Place(self._look, max(fits)) if fits else None

    def _in_site(self, site: Site, package: str, distribution: str) -> Fact[Located | None]:
        info = self._info(site, distribution)
        where = site.path or "the top folder"
        here = self._look.package(site.path, package)
        if here is not None:
            return Known(Located(Place(self._look, here), info, site, f"installed in {where}"))
        if gap := self._look.gap(below(below(site.path, package), "__init__.py")):
            return gap
        elsewhere: list[str] = []
        for folder in dict.fromkeys(self._redirects(site, package, distribution, info)):
            place = self._open(folder, package)
            if isinstance(place, Missing):
                return place
            if place is None:
                elsewhere.append(folder)
                if not any(look.is_folder(path) for look, path in self._candidates(folder)):
                    self.unfollowed[folder] = None
                continue
            how = f"editable install of {folder}, named in {where}"
            own = egg_info(place.look, posixpath.dirname(place.path), distribution)
            return Known(Located(place, info or own, site, how))
        if info is not None and self._has_code(info):
            why = f"{distribution} is installed in {where}, but its files are not in the tree"
            why += f" (its .pth files name {', '.join(elsewhere[:5])})" if elsewhere else ""
            ask = "name the folder that holds its code as the build"
            return unreached(self._look.tree.subject, info.path, why, ask)
        return Known(None)

    def _has_code(self, info: Place) -> bool:
        """Whether metadata describe an installation, and are not what was left of one."""
        return info.look.is_file(below(info.path, "RECORD")) or info.look.is_file(
            below(info.path, "METADATA")
        )

    def _redirects(self, site: Site, package: str, distribution: str, info: Place | None) -> Iterator[str]:
        """Folders that hold the package, or from which it is imported, as the site's files name them.

        Absolute on this machine or in the tree, or from the tree's root; a trailing ``/package`` is the
        package itself.
        """
        found = self._look.children(site.path)
        files = sorted(found.files) if found else []
        for name in [name for name in files if name.endswith(".pth")][:MAX_PTH]:
            leads = pth(self._look.text(below(site.path, name)) or "")
            for module in leads.modules:
                text = self._look.text(below(site.path, f"{module}.py")) or ""
                mapping = finder_mapping(text) if "MAPPING" in text else {}
                if package in mapping:
                    yield mapping[package]
            yield from (joined(site.path, folder) for folder in leads.folders)
        for name in (f"{distribution}.egg-link", f"{canonicalize_name(distribution)}.egg-link"):
            if name in files and (linked := egg_link(self._look.text(below(site.path, name)) or "")):
                yield linked
        if info and (stated := direct_url(info.look.text(below(info.path, "direct_url.json")) or "")):
            yield stated

    def _open(self, folder: str, package: str) -> Place | Missing | None:
        """The package's folder, where ``folder`` is it or holds it; in this tree, or outside if allowed."""
        gap: Missing | None = None
        for look, path in self._candidates(folder):
            if posixpath.basename(path) == package and look.is_file(below(path, "__init__.py")):
                return Place(look, path)
            for inner in _INNER:
                found = look.package(below(path, inner), package)
                if found is not None:
                    return Place(look, found)
            gap = gap or look.gap(below(below(path, package), "__init__.py"))
        return gap

    def _candidates(self, folder: str) -> Iterator[tuple[Look, str]]:
        """Where a folder that is named in a site may be, the nearest first."""
        root = getattr(self._look.tree, "root", None)  # of a folder on this machine
        if folder == ".." or folder.startswith("../"):
            if root is None:
                return
            folder = posixpath.normpath(f"{root}/{folder}")
        elif folder.startswith("/"):
            folder = posixpath.normpath(folder)
            if root is not None and (folder == str(root) or folder.startswith(f"{root}/")):
                yield self._look, folder[len(str(root)) :].strip("/")
            yield self._look, folder.strip("/")
        else:
            yield self._look, folder
            return
        if self._outside is not None and (tree := self._outside(posixpath.dirname(folder))) is not None:
            yield Look(tree), posixpath.basename(folder)


def _name_of(info: str) -> str:
    """``vllm`` for ``.../vllm-0.17.1.dist-info`` and ``.../vllm.egg-info``."""
    return posixpath.basename(info).rpartition(".")[0].partition("-")[0]


def egg_info(look: Look, root: str, distribution: str) -> Place | None:
    """The distribution's metadata folder in a source tree, if a build left one there."""
    found = look.children(root)
    wanted = canonicalize_name(distribution)
    fits = [
        name for name in (found.folders if found else ())
        if name.endswith((".egg-info", ".dist-info")) and canonicalize_name(_name_of(name)) == wanted
    ]  # fmt: skip
    return Place(look, below(root, max(fits))) if fits else None
