"""Kernels that were compiled ahead, and folders in which an image keeps what was compiled at run time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from canserve.facts import Fact, Known, Missing
from canserve.probes.discover import version_of
from canserve.probes.discover.environment import Place
from canserve.probes.stack.ground import Ground
from canserve.rules.stack import rows
from canserve.rules.table import Row
from canserve.subjects.stack import Kernels
from canserve.trees.names import below, printable

_COMPILED = (".so", ".cubin", ".fatbin")
_SM = re.compile(r"sm_?(\d{2,3}[af]?)(?![0-9])")
MAX_TARGETS = 40
MAX_HOMES = 20


def kernels(ground: Ground) -> Fact[tuple[Kernels, ...]]:
    """Packages of kernels beside the engine and inside it, and kept files of an image."""
    found: list[Kernels] = []
    looks = ground.seen(ground.sites[0].path, "packages of kernels")
    for row in rows("kernels"):
        each = _package(ground, row)
        if isinstance(each, Missing):
            return each
        if each.value is not None:
            found.append(each.value)
            looks += each.evidence
        found += _inside(ground, row)
    if ground.system:
        found += _kept(ground)
    looks += tuple(look for each in found for look in ground.seen(each.path, f"{each.files} files"))
    return Known(tuple(found), tuple(dict.fromkeys(looks)))


def _package(ground: Ground, row: Row) -> Fact[Kernels | None]:
    name, distribution = row.text("package"), row.text("distribution")
    located = ground.environment.locate(name, distribution)
    if isinstance(located, Missing):
        return located
    if located.value is None:
        return Known(None, located.evidence)
    place = located.value.package
    version = version_of(located.value)
    return Known(_counted(name, place, version), located.evidence)


def _inside(ground: Ground, row: Row) -> Iterator[Kernels]:
    """Copies that the engine's own package carries."""
    package = ground.found.candidate.located.package
    for inner in row.texts("inside"):
        path = below(package.path, inner)
        if package.look.is_folder(path):
            unsaid: Fact[str | None] = Known(None, ground.seen(path, "a copy inside the engine"))
            yield _counted(row.text("package"), Place(package.look, path), unsaid)


def _counted(name: str, place: Place, version: Fact[str | None]) -> Kernels:
    """A package, with how many compiled files it has."""
    compiled = [path for path in place.look.tree.listing(place.path).entries if path.endswith(_COMPILED)]
    targets = _targets(compiled, _SM)  # names of sources speak of GPUs that nothing was compiled for
    return Kernels(name, place.path, version, kept=False, files=len(compiled), targets=targets)


def _targets(paths: Iterable[str], pattern: re.Pattern[str]) -> tuple[str, ...]:
    """GPUs that the names speak of."""
    found = {match[1] for path in paths for match in pattern.finditer(path)}
    return tuple(sorted(found))[:MAX_TARGETS]


def _kept(ground: Ground) -> Iterator[Kernels]:
    """Folders in the homes of an image that compiling at run time fills."""
    homes = ["root", *(below("home", name) for name in ground.folders("home"))]
    for home in homes[:MAX_HOMES]:
        for row in rows("cache"):
            path = below(home, row.text("folder"))
            if not ground.look.is_folder(path):
                continue
            files = ground.look.tree.listing(path).entries
            pattern = row.values.get("target")
            targets = _targets(files, re.compile(pattern)) if isinstance(pattern, str) else ()
            unsaid: Fact[str | None] = Known(None, ground.seen(path, "kept files"))
            yield Kernels(
                row.text("name"), printable(path), unsaid, kept=True, files=len(files), targets=targets
            )
