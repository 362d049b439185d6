"""All engines that a tree holds, the one that it would run first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from canserve.engines import Engine
from canserve.facts import Known, Missing
from canserve.probes.discover.environment import Environment, Located, Outside, Place, egg_info
from canserve.probes.discover.look import Look
from canserve.probes.discover.survey import Site, Survey
from canserve.trees.names import below, unreached

_TOP = frozenset({"", "python", "src"})
"""Folders of a checkout from which its package is imported."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An engine's package, and the environment it runs in if there is one."""

    engine: Engine
    located: Located
    environment: Environment | None
    origin: str
    stray: bool = False
    """A source tree that no environment names, away from the top."""
    notes: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """In a few words."""
        return f"{self.engine.name}, {self.origin}"


def candidates(
    look: Look, walked: Survey, engines: Sequence[Engine], outside: Outside | None
) -> tuple[list[Candidate], dict[str, Missing]]:
    """In the order of preference: a checkout that was named itself, installations, other source trees.

    Also, by engine, why an installation that seems to be there could not be followed.
    """
    environments = [Environment(look, sites, outside) for sites in _groups(look, walked)]
    found: list[tuple[tuple[object, ...], Candidate]] = []
    troubles: dict[str, Missing] = {}
    for environment in environments:
        for order, engine in enumerate(engines):
            located = environment.locate(engine.package, engine.distribution)
            if isinstance(located, Missing):
                troubles.setdefault(engine.name, located)
            elif located.value is not None:
                candidate = _installed(engine, located.value, environment)
                found.append((_rank(2 if candidate.stray else 1, order, located.value), candidate))
        if environment.unfollowed and not found and not troubles:
            troubles[""] = _unfollowed(look, environment)
    known = {(c.located.package.look.tree.subject, c.located.package.path) for _, c in found}
    for order, engine in enumerate(engines):
        for candidate in _source_trees(look, walked, engine, environments):
            place = candidate.located.package
            if (place.look.tree.subject, place.path) not in known:
                tier = 2 if candidate.stray else 0
                found.append((_rank(tier, order, candidate.located), candidate))
    return [candidate for _, candidate in sorted(found, key=lambda pair: pair[0])], troubles


def _unfollowed(look: Look, environment: Environment) -> Missing:
    """Folders that an environment imports from and that are not in the tree: an engine may be there."""
    named = ", ".join(list(environment.unfollowed)[:5])
    why = f"its .pth files name {named}, where an engine may be, but that is not in the tree"
    return unreached(look.tree.subject, environment.site.path, why, "name that folder as the build")


def _rank(tier: int, order: int, located: Located) -> tuple[object, ...]:
    site = located.site
    python = tuple(-int(part) for part in site.python.split(".") if part) if site else ()
    path = located.package.path
    return tier, order, located.info is None, path.count("/") if site is None else 0, python, path


def _installed(engine: Engine, located: Located, environment: Environment) -> Candidate:
    tree = located.package.look.tree
    if not environment.real:  # one distribution, as it is in a wheel
        path = environment.site.path
        origin = f"unpacked wheel in {path}" if path else tree.origin
        return Candidate(engine, located, None, origin, stray=bool(path))
    return Candidate(engine, located, environment, f"{environment.kind}, {located.how}")


def _source_trees(
    look: Look, walked: Survey, engine: Engine, environments: Sequence[Environment]
) -> Iterator[Candidate]:
    top = look.children("")
    only = top.folders[0] if top and len(top.folders) == 1 and not top.files else None
    carried: set[str] = set()
    for folder, located in _located(look, walked, engine):
        if folder in carried:
            continue
        if engine.checkout is not None and not located.checkout:
            carried.add(below(folder, engine.checkout.carried))
        named = folder in _TOP or (only is not None and folder.removeprefix(only).lstrip("/") in _TOP)
        environment, notes = (None, ()) if located.checkout else _environment_of(environments)
        archive = look.tree.origin != "folder"
        origin = look.tree.origin if archive else located.how
        yield Candidate(engine, located, environment, origin, stray=not named, notes=notes)


def _located(look: Look, walked: Survey, engine: Engine) -> Iterator[tuple[str, Located]]:
    """Source trees of an engine, with the folder that each was found in."""
    for folder, package in walked.roots:
        if package == engine.package:
            info = egg_info(look, folder, engine.distribution)
            yield folder, Located(Place(look, below(folder, package)), info, None, _tree(folder))
    for folder, package in walked.checkouts:
        if package == engine.package:
            yield folder, Located(Place(look, folder), None, None, _tree(folder), checkout=True)


def _tree(folder: str) -> str:
    return f"source tree {folder or '.'}"


def _environment_of(environments: Sequence[Environment]) -> tuple[Environment | None, tuple[str, ...]]:
    """Where a source tree that no environment names would run: where its dependencies are."""
    real = [environment for environment in environments if environment.real]
    ready = [one for one in real if _has(one, "transformers")] or real
    ready.sort(key=lambda one: (not _has(one, "torch"), one.site))
    if not ready:
        return None, ()
    if len(ready) == 1:
        return ready[0], ()
    others = ", ".join(environment.site.path for environment in ready[1:5])
    return ready[0], (f"taken to run under {ready[0].site.path}; there are also {others}",)


def _has(environment: Environment, package: str) -> bool:
    located = environment.locate(package, package)
    return isinstance(located, Known) and located.value is not None


def _groups(look: Look, walked: Survey) -> Iterator[list[Site]]:
    """Each site, followed by those that the same interpreter reads too."""
    closed = {site for site in walked.sites if _is_virtual(look, site)}
    for site in walked.sites:
        beside: list[Site] = []
        if site not in closed or _sees_system(look, site):
            beside = [
                other for other in walked.sites
                if other != site and other not in closed and _same_python(site, other)
            ]  # fmt: skip
        yield [site, *beside]


def _is_virtual(look: Look, site: Site) -> bool:
    """Whether an environment stands alone: a virtual one, or one of conda's."""
    if site.prefix == site.path:
        return True
    return look.is_file(below(site.prefix, "pyvenv.cfg")) or look.is_folder(below(site.prefix, "conda-meta"))


def _sees_system(look: Look, site: Site) -> bool:
    text = look.text(below(site.prefix, "pyvenv.cfg")) or ""
    pairs = (line.partition("=") for line in text.splitlines()[:100])
    return any(
        k.strip().lower() == "include-system-site-packages" and v.strip().lower() == "true"
        for k, _, v in pairs
    )


def _same_python(one: Site, other: Site) -> bool:
    versions = {one.python, other.python}
    return len(versions) == 1 or ("3" in versions and all(version.startswith("3") for version in versions))
