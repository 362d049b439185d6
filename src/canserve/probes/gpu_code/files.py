"""Which files of an environment are looked at: extensions of the engine and of what it loads, CUDA's libraries."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from canserve.facts import Missing
from canserve.probes.discover import Found
from canserve.probes.discover.environment import Environment, Place
from canserve.probes.discover.look import Look
from canserve.rules.gpu_code import cuda_library, packages
from canserve.trees.names import below
from canserve.trees.positions import Unpacking
from canserve.trees.tree import Entry, Tree

MAX_EXTENSIONS = 2_000
"""Of one build; the largest package measured has some hundreds."""
_SHARED = re.compile(r"\.so(?:\.[0-9]+)*$")
_SYSTEM = ("usr/lib", "usr/lib64", "usr/local/lib", "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu")
_TOOLKITS = "usr/local"
_LOADER = "etc/ld.so.conf"


@dataclass(frozen=True, slots=True)
class Shared:
    """A shared object in a tree."""

    tree: Tree
    path: str
    entry: Entry
    package: str
    shown: str
    """From the folder that its package is imported from."""


@dataclass(frozen=True, slots=True)
class Unlisted:
    """A place where extensions may lie that could not be listed."""

    shown: str
    missing: Missing


def extensions(found: Found) -> Iterator[Shared | Unlisted]:
    """Of the engine's package, and of the packages beside it that engines load."""
    engine = found.candidate.located.package
    yield from _below(engine, found.engine.package)
    environment = found.environment
    if environment is None:
        return
    for name, package in packages().items():
        if not package.serves(found.engine.name):
            continue
        located = environment.locate(name, name)
        if isinstance(located, Missing):
            yield Unlisted(name, located)
        elif located.value is not None and located.value.package != engine:
            yield from _below(located.value.package, name)
        for module in package.modules:
            yield from _beside(environment, name, module)


def _below(place: Place, package: str) -> Iterator[Shared | Unlisted]:
    tree = place.look.tree
    listing = tree.listing(place.path)
    start = len(place.path) + 1 if place.path else 0
    for path, entry in listing.entries.items():
        if _SHARED.search(path):
            yield Shared(tree, path, entry, package, f"{package}/{path[start:]}")
    for hole in listing.holes:
        yield Unlisted(f"{package}/{hole.prefix[start:]}", hole.missing)


def _beside(environment: Environment, package: str, module: str) -> Iterator[Shared]:
    for place in environment.places:
        children = place.look.children(place.path)
        for name, entry in children.files.items() if children else ():
            if name.startswith(f"{module}.") and _SHARED.search(name):
                yield Shared(place.look.tree, below(place.path, name), entry, package, name)


@dataclass(frozen=True, slots=True)
class Libraries:
    """CUDA's libraries in a tree."""

    files: Mapping[str, str]
    """By file name, where each lies."""
    everywhere: bool
    """Whether all files were looked at, and not only the usual folders."""


def cuda_files(found: Found, listed: Iterable[Shared], wanted: Collection[str]) -> Libraries:
    """Libraries of the CUDA toolkit; of an image everywhere, where one that is wanted is in no usual folder."""
    names: dict[str, str] = {}
    for shared in listed:
        names.setdefault(shared.path.rpartition("/")[2], shared.path)
    look = found.candidate.located.package.look
    alone = Place(look, found.candidate.located.package.path.rpartition("/")[0])
    sites = found.environment.places if found.environment else (alone,)
    packed = (_packed(place) for place in sites)
    for path in chain(chain.from_iterable(packed), _of_system(look, found.environment)):
        names.setdefault(path.rpartition("/")[2], path)
    everywhere = False
    if is_system(look) and isinstance(look.tree, Unpacking) and set(wanted) - names.keys():
        whole = look.tree.listing()
        everywhere = not whole.holes
        for path in whole.entries:
            names.setdefault(path.rpartition("/")[2], path)
    return Libraries({name: path for name, path in names.items() if cuda_library(name)}, everywhere)


def _packed(site: Place) -> Iterator[str]:
    """What packages bring: NVIDIA's own below ``nvidia``, others' in ``NAME.libs``."""
    yield from site.look.tree.listing(below(site.path, "nvidia")).entries
    children = site.look.children(site.path)
    for folder in children.folders if children else ():
        if folder.endswith(".libs"):
            yield from _files(site.look, below(site.path, folder))


def _of_system(look: Look, environment: Environment | None) -> Iterator[str]:
    """What lies in the folders of the system, where the tree is one; and beside the interpreter."""
    if environment is not None:
        yield from _files(environment.places[0].look, below(environment.site.prefix, "lib"))
    if not is_system(look):
        return
    for folder in _SYSTEM:
        yield from _files(look, folder)
    local = look.children(_TOOLKITS)
    for name in local.folders if local else ():
        if name.startswith("cuda"):
            toolkit = below(_TOOLKITS, name)
            yield from _files(look, below(toolkit, "lib64"))
            targets = look.children(below(toolkit, "targets"))
            for target in targets.folders if targets else ():
                yield from _files(look, f"{toolkit}/targets/{target}/lib")


def is_system(look: Look) -> bool:
    """Whether the tree is a whole root file system, with the loader's own configuration."""
    return look.is_file(_LOADER)


def _files(look: Look, folder: str) -> Iterator[str]:
    children = look.children(folder)
    for name in children.files if children else ():
        yield below(folder, name)
