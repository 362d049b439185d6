"""What importing a module needs: names from other packages, and imports inside the package that must fail.

Only imports that certainly run count: those outside any ``try`` and any condition that the platform does
not decide.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from canserve.engines.static.graph import ClassGraph
from canserve.engines.static.modules import within
from canserve.engines.static.outline import Outline
from canserve.engines.static.sites import Absent, ImportSite
from canserve.facts import Missing
from canserve.subjects.build import Import, Site

MAX_MODULES = 2000
"""Modules of one closure; the largest real one measured has under 200."""


@dataclass(frozen=True, slots=True)
class Need:
    """One import that must succeed, and the file it stands in."""

    path: str
    site: ImportSite

    def __str__(self) -> str:
        name = f"{self.site.module}.{self.site.name}" if self.site.name else self.site.module
        return f"{name} ({self.path}:{self.site.line})"


@dataclass(slots=True)
class Closure:
    """What was found in a module, or in a module and all that it pulls in."""

    modules: list[str] = field(default_factory=list)
    """The modules looked at; of a single module: those that it pulls in."""
    outside: list[Need] = field(default_factory=list)
    """Imports from other packages, the standard library left out."""
    broken: list[Need] = field(default_factory=list)
    """Imports of a module or name of the package itself that is not there."""
    unread: list[Missing] = field(default_factory=list)
    """Why parts of it could not be followed."""

    def taken(self, package: str) -> tuple[Import, ...]:
        """What is needed from one package, each name once, at the place that comes first."""
        found: dict[tuple[str, str | None], Import] = {}
        for need in self.outside:
            module, name = need.site.module, need.site.name
            if within(module, package):
                name = None if name == "*" else name
                found.setdefault((module, name), Import(module, name, Site(need.path, need.site.line)))
        return tuple(found.values())

    def others(self, but: str) -> tuple[Import, ...]:
        """Packages that are needed but for one, by top-level name, each at the place that comes first."""
        found: dict[str, Import] = {}
        for need in self.outside:
            package = need.site.module.split(".")[0]
            if package != but:
                found.setdefault(package, Import(package, None, Site(need.path, need.site.line)))
        return tuple(found.values())


class Imports:
    """Follows imports through those modules of a package that ``follow`` admits; each is read once."""

    def __init__(self, graph: ClassGraph, follow: Callable[[str], bool]) -> None:
        self._graph = graph
        self._follow = follow
        self._direct: dict[str, Closure] = {}

    def closure(self, roots: Iterable[str]) -> Closure:
        """All that importing these modules needs. Level by level: the files of a level come in together."""
        found = Closure()
        level = list(dict.fromkeys(roots))
        seen = set(level)
        while level and len(found.modules) < MAX_MODULES:
            self._graph.sources.prefetch(filter(None, map(self._graph.file_of, level)))
            found.modules += level
            deeper: dict[str, None] = {}
            for module in level:
                direct = self._of(module)
                found.outside += direct.outside
                found.broken += direct.broken
                found.unread += direct.unread
                deeper.update(dict.fromkeys(direct.modules))
            level = [module for module in deeper if module not in seen]
            seen.update(level)
        found.broken += [need for module in found.modules for need in self._lacking(module)]
        return found

    def _of(self, module: str) -> Closure:
        if module not in self._direct:
            self._direct[module] = self._read(module)
        return self._direct[module]

    def _read(self, module: str) -> Closure:
        found = Closure()
        outline = self._graph.outline(module)
        if isinstance(outline, Missing):
            found.unread.append(outline)
        parts = module.split(".")
        pulled = [".".join(parts[:count]) for count in range(1, len(parts))]
        path = self._graph.file_of(module) or module
        for site in self._graph.imports_of(module):
            if not site.guards:
                pulled += self._visit(found, Need(path, site))
        found.modules = [m for m in dict.fromkeys(pulled) if self._follow(m) and self._graph.file_of(m)]
        return found

    def _visit(self, found: Closure, need: Need) -> list[str]:
        site = need.site
        if not within(site.module, self._graph.top):
            if site.module and site.module.split(".")[0] not in sys.stdlib_module_names:
                found.outside.append(need)
            return []
        candidates = [site.module, f"{site.module}.{site.name}"] if site.name else [site.module]
        there = [module for module in candidates if self._graph.file_of(module) is not None]
        if not there and not self._elsewise(site.module):
            outline = self._graph.outline(site.module)
            if isinstance(outline, Missing):
                found.unread.append(outline)
            else:
                found.broken.append(need)
        return there

    def _elsewise(self, module: str) -> bool:
        """Whether a module without Python file may be there: a namespace package, a compiled or built one."""
        stem = module.replace(".", "/")
        sources = self._graph.sources
        return bool(sources.under(f"{stem}/") or sources.under(f"{stem}.", ".so")) or (
            module.rsplit(".", 1)[-1].startswith("_")  # ``_C``, ``_version``: written by the build
        )

    def _lacking(self, module: str) -> Iterable[Need]:
        """Imports of names that a followed module of the package certainly does not have."""
        path = self._graph.file_of(module) or module
        for site in self._graph.imports_of(module):
            if site.name is None or site.name == "*" or site.guards or site.module not in self._direct:
                continue
            there = self._graph.outline(site.module)
            if not isinstance(there, Outline) or site.name in there.names:
                continue  # what it is bound to is that module's own affair
            if self._elsewise(f"{site.module}.{site.name}"):
                continue
            if all(isinstance(found, Absent) for found in self._graph.resolve(site.module, site.name)):
                yield Need(path, site)
