"""The whole table: which releases of which engine list a name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from canserve.index.history import ReleaseHistory
from canserve.index.runs import Column, Run, column_of, listed, runs_of
from canserve.index.shelf import Shelf, expand
from canserve.index.words import split, unword
from canserve.units import Capability

ARCHITECTURES = "architectures"
QUANTIZATION = "quantization"
GGUF = "gguf_architectures"
CONVERTED = "converted"
"""Architectures that a release does not serve as they are, but makes GGUF files of, which it serves."""
CAPABILITIES = "method_capabilities"
NONE, UNREAD = "none", "unread"
"""A method that sets no minimum, and one whose minimum could not be read."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """Rows of one table by name; each row holds the runs of the engines that ever listed the name."""

    table: str
    columns: tuple[Column, ...]
    rows: Mapping[str, Mapping[str, tuple[Run, ...]]]
    """Name -> engine -> runs, oldest first; engines that never listed it are left out."""
    unread: Mapping[str, tuple[Run, ...]]
    """Engine -> releases whose table could not be read: there absence proves nothing."""
    not_indexed: tuple[str, ...] = ()
    """Engines of which there is no index, or no release that could be read: nothing is said of them."""
    capabilities: Mapping[str, Mapping[str, Mapping[str, tuple[Run, ...]]]] = field(default_factory=dict)
    """Of quantization methods: name -> engine -> least compute capability (``7.5``, NONE, UNREAD) -> runs."""

    def current(self, engine: str, runs: Sequence[Run]) -> bool:
        """Whether the newest indexed release is in the last run."""
        releases = next(column.releases for column in self.columns if column.engine == engine)
        return bool(runs) and bool(releases) and runs[-1].last == releases[-1]

    def capability(self, name: str, engine: str) -> str | None:
        """The least compute capability in the newest release that lists the method; None: not recorded."""
        said = self.capabilities.get(name, {}).get(engine, {})
        last = self.rows[name][engine][-1].last
        return next((text for text, runs in said.items() if any(run.last == last for run in runs)), None)


def matrix(history: ReleaseHistory, engines: Iterable[str], table: str = ARCHITECTURES) -> Matrix:
    """One table of all these engines; those without an index are only named."""
    missing: list[str] = []
    columns: list[Column] = []
    rows: dict[str, dict[str, tuple[Run, ...]]] = {}
    unread: dict[str, tuple[Run, ...]] = {}
    least: dict[str, dict[str, dict[str, tuple[Run, ...]]]] = {}
    for engine in engines:
        shelf = history.shelf(engine)
        if shelf is None or all(row.get("unreadable") for row in shelf.releases):
            missing.append(engine)  # a column of gaps would say that nothing is listed
            continue
        column = column_of(shelf)
        columns.append(column)
        for name, positions in _positions(shelf, table).items():
            if runs := runs_of(column, positions):
                rows.setdefault(name, {})[engine] = runs
        if runs := listed(column, shelf.unread.get(table, "")):
            unread[engine] = runs
        for key, text in shelf.tables.get(CAPABILITIES, {}).items() if table == QUANTIZATION else ():
            method, number = split(key)
            least.setdefault(method, {}).setdefault(engine, {})[_capability(number)] = listed(column, text)
    ordered = {name: rows[name] for name in sorted(rows, key=lambda name: (name.lower(), name))}
    return Matrix(table, tuple(columns), ordered, unread, tuple(missing), least)


def _positions(shelf: Shelf, table: str) -> dict[str, set[int]]:
    """Each name's releases; an engine that only converts architectures has them in a table of that."""
    found = {unword(name): set(expand(text)) for name, text in shelf.tables.get(table, {}).items()}
    for key, text in shelf.tables.get(CONVERTED, {}).items() if table == ARCHITECTURES else ():
        found.setdefault(split(key)[0], set()).update(expand(text))
    return found


def _capability(number: str) -> str:
    return NONE if not number else UNREAD if number == "?" else str(Capability.of(int(number)))


def select(whole: Matrix, patterns: Sequence[str]) -> Matrix:
    """The rows that any pattern fits: a part of the name, or the whole of it with ``*`` and ``?``."""
    if not patterns:
        return whole
    tests: list[Callable[[str], bool]] = [_fits(pattern.lower()) for pattern in patterns]
    rows = {name: row for name, row in whole.rows.items() if any(test(name.lower()) for test in tests)}
    return replace(whole, rows=rows)


def _fits(pattern: str) -> Callable[[str], bool]:
    if any(sign in pattern for sign in "*?["):
        return lambda name: fnmatchcase(name, pattern)
    return lambda name: pattern in name
