"""Which of an image's plain layers need not be read: those below a whole installation of an engine.

A layer that has no table of contents can only be read from its start, so layers are read from the top one down:
whatever a layer holds wins over all below it. Reading stops where an engine and the packages beside it are whole in
one folder of packages, by what each installation says of itself (its RECORD; "Recording installed projects" of the
Python Packaging User Guide), and were not put over older ones. What is claimed then:

* contents are those of the image: every layer above was read to its end, and within a layer a path stands once
  (OCI image specification 1.1, "Image Layer Filesystem Changeset": "MUST NOT include duplicate entries");
* a file that is not in the folder of such a package is absent, for its RECORD does not list it;
* of everything else that was not seen nothing is known: it may be in the layers that were not read.

Within a layer reading stops only where its names are sorted, behind the folder of packages. No size, no
``created_by`` and no environment variable of the image decides anything here.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from canserve.trees.image.layer import FILE, Layer
from canserve.trees.image.overlay import Folder, Leaf, at, inside_of, merge
from canserve.trees.names import below

_RECORD = re.compile(r"((?:.*/)?(?:site|dist)-packages)/([^/]+\.dist-info)/RECORD")
_SYSTEM = frozenset({"usr", "usr/local"})
MAX_ROWS = 200_000
"""Lines of one RECORD; torch with its headers has 20,000."""


@dataclass(frozen=True, slots=True)
class Sought:
    """What an image is read for."""

    engines: frozenset[str]
    """Import packages; one of them is enough."""
    beside: frozenset[str] = frozenset()
    """Import packages that are looked into beside it."""
    whole: bool = True
    """Whether everything is wanted, and no layer is to be left out."""
    named: frozenset[str] = frozenset()
    """Engines that the image's config speaks of: where another one is found, that is not all."""

    @property
    def packages(self) -> frozenset[str]:
        """All whose files will be asked for."""
        return self.engines | self.beside


@dataclass(frozen=True, slots=True)
class Settled:
    """Installations that are whole without the layers below."""

    site: str
    folders: frozenset[str]
    """Whose contents are all known: packages and their metadata."""


@dataclass(frozen=True, slots=True)
class _Installed:
    """A distribution that owns a package."""

    site: str
    info: str
    package: str
    record: str
    layer: int


def settled(layers: Sequence[Layer], sought: Sought) -> Settled | None:
    """Whether these layers, the lowest of them first, will do; None: no, or not certainly."""
    root, _ = merge(layers)
    removed = frozenset().union(*(layer.removed for layer in layers))
    sites: dict[str, dict[str, _Installed]] = {}
    for found in _owners(layers, root, sought.packages):
        sites.setdefault(found.site, {})[found.package] = found
    for site, installed in sites.items():
        if not sought.beside <= installed.keys() or not _known_python(root, site):
            continue
        engines = [package for package in sorted(sought.engines) if package in installed]
        wanted = [installed[package] for package in (*engines, *sorted(sought.beside))]
        others = sought.engines - set(engines)
        if (
            engines
            and not sought.named & others
            and not _traces(layers, site, others)
            and all(_whole(root, each, removed) and _first(layers[each.layer], each) for each in wanted)
        ):
            names = ((each.package, each.info) for each in wanted)
            return Settled(site, frozenset(below(site, name) for pair in names for name in pair))
    return None


def _owners(layers: Sequence[Layer], root: Folder, packages: Iterable[str]) -> Iterator[_Installed]:
    """The distributions that own one of these packages, as far as the layers show them."""
    marks = {package: f"{package}/__init__.py," for package in packages}
    for number, layer in enumerate(layers):
        for path in layer.packed:
            parts = _RECORD.fullmatch(path)
            leaf = at(root, path) if parts else None
            if parts is None or not isinstance(leaf, Leaf) or (leaf.layer, leaf.path) != (number, path):
                continue
            text = (layer.content(path) or b"").decode("utf-8", "replace")
            for package, mark in marks.items():
                if text.startswith(mark) or f"\n{mark}" in text:
                    yield _Installed(parts[1], parts[2], package, text, number)


def _traces(layers: Sequence[Layer], site: str, engines: Iterable[str]) -> bool:
    """Whether anything seen so far speaks for another engine: metadata, an editable install, a source tree."""
    named = "|".join(re.escape(engine) for engine in sorted(engines))
    if not named:
        return False
    site = re.escape(site)
    trace = re.compile(
        rf"{site}/[^/]*(?:{named})[^/]*\.(?:(?:dist|egg)-info(?:/.*)?|pth|egg-link)"
        rf"|(?:{site}/|(?!.*(?:site|dist)-packages/)(?:.*/)?)(?:{named})/__init__\.py"
    )
    return any(trace.fullmatch(path) for layer in layers for path in layer.nodes)


def _known_python(root: Folder, site: str) -> bool:
    """Whether it is seen which environment the folder belongs to: the system's, or one that says what it is."""
    prefix = re.sub(r"/lib(?:64)?/python[^/]*/[^/]+$", "", site)
    marked = isinstance(at(root, f"{prefix}/pyvenv.cfg"), Leaf)
    return prefix in _SYSTEM or marked or isinstance(at(root, f"{prefix}/conda-meta"), Folder)


def _whole(root: Folder, installed: _Installed, removed: frozenset[str]) -> bool:
    """Whether every file that the distribution lists is there, or was taken away by a later layer."""
    lines = installed.record.splitlines()
    if len(lines) > MAX_ROWS or max(map(len, lines)) > csv.field_size_limit():
        return False
    for row in csv.reader(lines):
        if not row:
            return False
        path = row[0]
        if path.startswith(("/", "..")) or path.endswith(".pyc"):  # scripts; what Python can make anew
            continue
        whole = below(installed.site, path)
        found = at(root, whole)
        if not (isinstance(found, Leaf) and found.node.kind == FILE) and not inside_of(whole, removed):
            return False
    return True


def _first(layer: Layer, installed: _Installed) -> bool:
    """Whether the layer that installed it took nothing of it away: an older one below may have left files."""
    inside = below(installed.site, installed.package)
    name = installed.info.partition("-")[0].lower()
    for path in layer.removed:
        folder, _, base = path.rpartition("/")
        if path == inside or path.startswith(f"{inside}/"):
            return False
        if folder == installed.site and base.lower().startswith(f"{name}-"):
            return False
    return True
