"""One indexed release, looked at through its shelf: nothing is unpacked or put together before it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from canserve.index.shelf import Shelf
from canserve.index.words import split, unword, word
from canserve.subjects.build import Site

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class At:
    """A release of a shelf. ``site`` stands for every place in its files: the index keeps no lines."""

    shelf: Shelf
    position: int
    site: Site

    def names(self, table: str) -> list[str]:
        """Every name of a table, sorted."""
        return self.shelf.names(table, self.position)

    def has(self, table: str, name: str) -> bool:
        """Whether a table has exactly this name."""
        return self.shelf.has(table, name, self.position)

    def of(self, table: str, first: str) -> list[list[str]]:
        """The other words of all names that begin with this one, in their order."""
        return [split(name)[1:] for name in self.shelf.names(table, self.position, word(first))]


class Lazy(Mapping[str, V], Generic[V]):
    """A mapping whose keys are a table's names and whose values are made when they are asked for."""

    def __init__(self, at: At, table: str, make: Callable[[At, str], V]) -> None:
        self._at = at
        self._table = table
        self._make = make

    def __getitem__(self, key: str) -> V:
        if key not in self:
            raise KeyError(key)
        return self._make(self._at, key)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self._at.has(self._table, word(key))

    def __iter__(self) -> Iterator[str]:
        return map(unword, self._at.names(self._table))

    def __len__(self) -> int:
        return len(self._at.names(self._table))

    def __repr__(self) -> str:
        return repr(dict(self))


class Firsts(Mapping[str, V], Generic[V]):
    """A mapping whose keys are the first words of a table's names; values are made of the other words."""

    def __init__(self, at: At, table: str, make: Callable[[At, list[str]], V]) -> None:
        self._at = at
        self._table = table
        self._make = make

    def __getitem__(self, key: str) -> V:
        for words in self._at.of(self._table, key):
            return self._make(self._at, words)
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(unword(name.partition(" ")[0]) for name in self._at.names(self._table)))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __repr__(self) -> str:
        return repr(dict(self))
