"""Which release of an engine first, last and ever listed a name; from the index."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cache

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from canserve.facts import Evidence, Known
from canserve.index.places import loaded
from canserve.index.shelf import Shelf, ShelfError, expand
from canserve.subjects.build import TransformersTable


@dataclass(frozen=True, slots=True)
class ReleaseHistory:
    """Implements ``checks.case.History``. Each engine's data is loaded when it is first asked for."""

    _shelves: dict[str, Shelf | None] = field(default_factory=dict)

    def shelf(self, engine: str) -> Shelf | None:
        """The engine's index; None: there is none, and nothing is known."""
        if engine not in self._shelves:
            try:
                self._shelves[engine] = loaded(engine)
            except ShelfError:
                self._shelves[engine] = None
        return self._shelves[engine]

    def releases(self, engine: str) -> tuple[str, ...]:
        """Every indexed release, oldest first."""
        shelf = self.shelf(engine)
        return () if shelf is None else tuple(str(row["version"]) for row in shelf.releases)

    def releases_with(self, engine: str, architecture: str) -> tuple[str, ...]:
        """Releases that list the architecture natively, oldest first."""
        return self._with(engine, "architectures", architecture)

    def names(self, engine: str) -> frozenset[str]:
        """Every architecture any release ever listed."""
        shelf = self.shelf(engine)
        return frozenset() if shelf is None else frozenset(shelf.tables.get("architectures", ()))

    def neighbour_count(self, engine: str, version: Version | None) -> int | None:
        """How many architectures the nearest release up to this version lists, of those that were understood."""
        shelf = self.shelf(engine)
        if shelf is None or version is None or not shelf.releases:
            return None
        ordered = [Version(str(row["version"])) for row in shelf.releases]
        position = bisect_right(ordered, version) - 1
        if position >= 0 and ordered[position] == version:
            position -= 1  # a release is not its own neighbour
        while position >= 0 and shelf.is_unread("architectures", position):
            position -= 1
        return len(shelf.names("architectures", position)) if position >= 0 else None

    def first_listing(self, engine: str, table: str, name: str) -> str | None:
        """The first release whose ``reasoning_parsers``, ``tool_parsers`` or ``flags`` hold the name."""
        found = self._with(engine, table, name)
        return found[0] if found else None

    def first_parsing(self, engine: str, model_type: str) -> str | None:
        """The first release with its own shim for the type, or whose every allowed transformers has it."""
        from canserve.index import transformers_table

        shelf = self.shelf(engine)
        if shelf is None:
            return None
        own = set(shelf.positions("config_types", model_type))
        fact = transformers_table()
        for position, row in enumerate(shelf.releases):
            if position in own:
                return str(row["version"])
            requirement = row.get("transformers")
            if not isinstance(fact, Known) or not isinstance(requirement, str):
                continue
            if _always(fact.value, requirement, model_type):
                return str(row["version"])
        return None

    def evidence(self, engine: str) -> Evidence:
        """Where this comes from and of which date."""
        shelf = self.shelf(engine)
        if shelf is None:
            return Evidence(engine, "release index", "nothing is known of this engine", whole=False)
        count = len(shelf.releases)
        newest = shelf.version(-1) if count else "none"
        return Evidence(
            f"{engine} releases",
            "release index",
            f"{count} read, to {newest}",
            when=shelf.built,
        )

    def _with(self, engine: str, table: str, name: str) -> tuple[str, ...]:
        shelf = self.shelf(engine)
        if shelf is None:
            return ()
        return tuple(shelf.version(at) for at in expand(shelf.tables.get(table, {}).get(name, "")))


def _always(table: TransformersTable, requirement: str, model_type: str) -> bool:
    """Whether every release that a requirement allows knows the type; the newest alone rules most out."""
    try:
        allowed = SpecifierSet(requirement)
    except InvalidSpecifier:
        return False
    having = [v for v in table.versions if model_type in table.config_types(v)]
    if not having or not any(allowed.contains(v) for v in having):
        return False
    return all(v in having for v in table.versions if allowed.contains(v) and not Version(v).is_prerelease)


@cache
def release_history() -> ReleaseHistory:
    """The history of all engines, loaded on first use."""
    return ReleaseHistory()
