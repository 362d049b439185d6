"""The releases of a shelf for one question to all of them: what neighbours answer alike is asked once.

A release is looked at through its shelf alone. So whoever writes down what a question asked the shelf knows
which later releases give the very same answers, and needs to ask only where some of them changes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from canserve.facts import Fact, Known
from canserve.index.rebuild import build_at
from canserve.index.shelf import Shelf
from canserve.subjects.build import Build, Transformers

Asked = tuple[str, str, str | None]
"""A kind of question (``has``, ``names``, ``unread``), a table, and a name or first word."""


class Noticed(Transformers):
    """The transformers of a release; ``looked`` is told when any of it is read."""

    __slots__ = ("looked",)
    looked: list[bool]

    def __getattribute__(self, name: str) -> Any:
        if name in _FACTS:
            object.__getattribute__(self, "looked").append(True)
        return object.__getattribute__(self, name)


_FACTS = frozenset(each.name for each in fields(Transformers))


@dataclass(frozen=True, slots=True)
class Watched(Shelf):
    """A shelf that remembers what it was asked."""

    asked: set[Asked] = field(default_factory=set, compare=False, repr=False)
    _edges: dict[Asked, list[int]] = field(default_factory=dict, compare=False, repr=False)

    def is_unread(self, table: str, position: int) -> bool:
        """As the shelf says."""
        self.asked.add(("unread", table, None))
        return Shelf.is_unread(self, table, position)

    def has(self, table: str, name: str, position: int) -> bool:
        """As the shelf says."""
        self.asked.add(("has", table, name))
        return Shelf.has(self, table, name, position)

    def names(self, table: str, position: int, first: str | None = None) -> list[str]:
        """As the shelf says."""
        self.asked.add(("names", table, first))
        return Shelf.names(self, table, position, first)

    def changes(self, position: int, row: Sequence[str] = ()) -> int:
        """The first later release of which something that was asked since the last call gets another answer.

        ``row``: what was taken from the release's row; the rest of it only names the release.
        """
        mine = [self.releases[position].get(key) for key in row]
        others = ([other.get(key) for key in row] for other in self.releases[position + 1 :])
        end = next((at for at, it in enumerate(others, position + 1) if it != mine), len(self.releases))
        if end > position + 1:
            for asked in self.asked:
                edges = self._edges_of(asked)
                at = bisect_right(edges, position)
                end = min(end, edges[at] if at < len(edges) else end)
        self.asked.clear()
        return end

    def _edges_of(self, asked: Asked) -> list[int]:
        """Positions at which the answer may differ from that of the release before, in their order."""
        if asked not in self._edges:
            found = {edge for text in self._runs_of(*asked) for edge in _edges(text)}
            self._edges[asked] = sorted(found)
        return self._edges[asked]

    def _runs_of(self, kind: str, table: str, name: str | None) -> list[str]:
        rows = self.tables.get(table, {})
        if kind == "unread":
            return [self.unread.get(table, "")]
        if name is None:
            return list(set(rows.values()))
        if kind == "names":
            return [rows[one] for one in self.starting(table, name)]
        return [rows[name]] if name in rows else []


def _edges(text: str) -> list[int]:
    """``"3-5,9"`` -> ``[3, 6, 9, 10]``: where runs begin, and where they have ended."""
    found = []
    for run in filter(None, text.split(",")):
        first, _, last = run.partition("-")
        found += [int(first), int(last or first) + 1]
    return found


class Indexed:
    """The releases of a shelf as builds; implements ``since.Releases``."""

    def __init__(
        self,
        shelf: Shelf,
        without: frozenset[str] = frozenset(),
        change: Callable[[Fact[Build]], Fact[Build]] | None = None,
    ) -> None:
        self._shelf = Watched(**{each.name: getattr(shelf, each.name) for each in fields(Shelf)})
        self._without = without
        self._change = change
        self._looked: list[bool] = []

    def build(self, position: int) -> Fact[Build]:
        """The release at a position. What is read of it later counts as asked of it."""
        self._shelf.asked.clear()
        self._looked.clear()
        build = build_at(self._shelf, position, self._without)
        if isinstance(build, Known):
            build = replace(build, value=replace(build.value, transformers=self._noticed(build.value)))
        return build if self._change is None else self._change(build)

    def _noticed(self, build: Build) -> Noticed:
        its = build.transformers
        noticed = Noticed(its.installed, its.requirement, its.table)
        object.__setattr__(noticed, "looked", self._looked)
        return noticed

    def same_until(self, position: int) -> int:
        """The first later release that may answer otherwise than what was read since ``build``."""
        return self._shelf.changes(
            position, ("unreadable", "transformers") if self._looked else ("unreadable",)
        )
