"""Index data on disk, one file a project: a line of JSON that says what it is, then packed parts.

The line: ``{"schema", "reader", "project", "built", "crc", "parts": [[NAME, LENGTH], ...]}``. The parts: ``releases``
(a row a release: version, date, file, sha256 ...), ``shared``, ``words`` and ``runs``, and a part for each
table (see ``columns``), unpacked when it is first asked for. A table says by name in which releases it occurs, as runs
of positions in the list of releases (``"3-40,52"``). Support is not monotonic, so
a run only ever holds releases that were read; nothing is filled in between.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from canserve.index.columns import (
    ColumnError,
    Vocabulary,
    Writer,
    compress,
    decompress,
    front_coded,
    front_decoded,
    read_table,
    vocabulary_of,
)

SCHEMA = 2
"""Of the files; a file of another schema is not read."""
MAX_HEAD = 1 << 16
UNREAD = "unread"
"""Part that is a table of tables: in which releases each could not be read."""
TABLE = "table "
"""What the names of the other tables' parts begin with."""


class ShelfError(ValueError):
    """Index data that is absent, damaged or of another schema."""


class Tables(Mapping[str, Mapping[str, str]]):
    """Tables by name; each is unpacked when it is first asked for. Raises ShelfError then."""

    def __init__(self, parts: Mapping[str, bytes]) -> None:
        self._parts = parts
        self._names = [name.removeprefix(TABLE) for name in parts if name.startswith(TABLE)]
        self._vocabulary: Vocabulary | None = None
        self._tables: dict[str, Mapping[str, str]] = {}

    def __getitem__(self, table: str) -> Mapping[str, str]:
        if table not in self._tables:
            self._tables[table] = self.part(TABLE + table)
        return self._tables[table]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def part(self, name: str) -> Mapping[str, str]:
        """A table by the name of its part. Raises KeyError, ShelfError."""
        data = self._parts[name]
        try:
            if self._vocabulary is None:
                shared, words, runs = (decompress(self._parts[part]) for part in ("shared", "words", "runs"))
                self._vocabulary = Vocabulary(front_decoded(shared, words), runs.decode().split("\n"))
            return read_table(decompress(data), self._vocabulary)
        except (ColumnError, UnicodeDecodeError) as error:
            raise ShelfError(f"index data is damaged: {name}: {error}") from error


@dataclass(frozen=True, slots=True)
class Shelf:
    """The index of one project."""

    project: str
    """The engine's name; the library's is ``transformers-library``."""
    built: str
    """UTC date of the last change."""
    reader: str
    releases: tuple[Mapping[str, Any], ...]
    """Oldest first; every row has at least ``version``, ``date``, ``file`` and ``sha256``."""
    tables: Mapping[str, Mapping[str, str]]
    """By table: name -> runs."""
    unread: Mapping[str, str]
    """Table -> releases in which it could not be read: there absence proves nothing."""
    _firsts: dict[str, Mapping[str, Sequence[str]]] = field(default_factory=dict, compare=False, repr=False)
    _at: dict[int, dict[str, bool]] = field(default_factory=dict, compare=False, repr=False)

    def positions(self, table: str, name: str) -> list[int]:
        """Positions of the releases whose table holds the name."""
        return expand(self.tables.get(table, {}).get(name, ""))

    def version(self, position: int) -> str:
        """The version at a position."""
        return str(self.releases[position]["version"])

    def position(self, version: str) -> int | None:
        """Where a version stands."""
        return next((at for at, row in enumerate(self.releases) if row["version"] == version), None)

    def is_unread(self, table: str, position: int) -> bool:
        """Whether the table of that release could not be read."""
        return holds(self.unread.get(table, ""), position)

    def has(self, table: str, name: str, position: int) -> bool:
        """Whether the table of that release has the name."""
        run = self.tables.get(table, {}).get(name)
        return run is not None and self._holds(run, position)

    def names(self, table: str, position: int, first: str | None = None) -> list[str]:
        """The names of one release, sorted; only those with this first word where one is given."""
        rows = self.tables.get(table, {})
        among = rows if first is None else self.starting(table, first)
        return [name for name in among if self._holds(rows[name], position)]

    def starting(self, table: str, first: str) -> Sequence[str]:
        """The names of all releases that have this first word."""
        if table not in self._firsts:
            found: dict[str, list[str]] = {}
            for name in self.tables.get(table, {}):
                found.setdefault(name.partition(" ")[0], []).append(name)
            self._firsts[table] = found
        return self._firsts[table].get(first, ())

    def _holds(self, run: str, position: int) -> bool:
        """Like ``holds``, remembered: many names share a run."""
        known = self._at.setdefault(position, {})
        if run not in known:
            known[run] = holds(run, position)
        return known[run]


def runs(positions: Iterable[int]) -> str:
    """``[3, 4, 5, 9]`` -> ``"3-5,9"``."""
    out: list[list[int]] = []
    for position in sorted(set(positions)):
        if out and position == out[-1][1] + 1:
            out[-1][1] = position
        else:
            out.append([position, position])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in out)


def expand(text: str) -> list[int]:
    """``"3-5,9"`` -> ``[3, 4, 5, 9]``."""
    out: list[int] = []
    for run in filter(None, text.split(",")):
        first, _, last = run.partition("-")
        out.extend(range(int(first), int(last or first) + 1))
    return out


def holds(text: str, position: int) -> bool:
    """Whether a position lies in the runs."""
    for run in filter(None, text.split(",")):
        first, _, last = run.partition("-")
        if int(first) <= position <= int(last or first):
            return True
    return False


def contents(shelf: Shelf, table: str) -> list[frozenset[str]]:
    """What a table holds, release by release."""
    found: list[set[str]] = [set() for _ in shelf.releases]
    for name, text in shelf.tables.get(table, {}).items():
        for position in expand(text):
            found[position].add(name)
    return [frozenset(names) for names in found]


def tabulate(rows: Sequence[Mapping[str, Iterable[str]]]) -> dict[str, dict[str, str]]:
    """Rows of ``{table: names}``, one a release, turned into ``{table: {name: runs}}``."""
    found: dict[str, dict[str, list[int]]] = {}
    for position, row in enumerate(rows):
        for table, names in row.items():
            by_name = found.setdefault(table, {})
            for name in names:
                by_name.setdefault(name, []).append(position)
    return {
        table: {name: runs(positions) for name, positions in sorted(names.items())}
        for table, names in sorted(found.items())
    }


def pack(shelf: Shelf) -> bytes:
    """The file's bytes; the same shelf always gives the same bytes."""
    tables = {TABLE + name: shelf.tables[name] for name in sorted(shelf.tables)} | {UNREAD: shelf.unread}
    vocabulary = vocabulary_of(tables.values())
    writer = Writer(vocabulary)
    shared, words = front_coded(vocabulary.words)
    rows = json.dumps(list(shelf.releases), separators=(",", ":"), sort_keys=True)
    parts = {
        "releases": compress(rows.encode()),
        "shared": compress(shared),
        "words": compress(words),
        "runs": compress("\n".join(vocabulary.runs).encode()),
        **{name: compress(writer.table(table)) for name, table in tables.items()},
    }
    body = b"".join(parts.values())
    head = {
        "schema": SCHEMA,
        "reader": shelf.reader,
        "project": shelf.project,
        "built": shelf.built,
        "crc": zlib.crc32(body),
        "parts": [[name, len(part)] for name, part in parts.items()],
    }
    return json.dumps(head, separators=(",", ":")).encode() + b"\n" + body


def unpack(data: bytes) -> Shelf:
    """A shelf from its bytes. Raises ShelfError."""
    line, newline, body = data[:MAX_HEAD].partition(b"\n")
    body = data[len(line) + len(newline) :]
    try:
        head = json.loads(line) if newline else None
        if not isinstance(head, dict):
            raise ShelfError("index data is damaged: it does not begin with a line that describes it")
        if head["schema"] != SCHEMA:
            raise ShelfError(f"index data of schema {head['schema']}; this program reads {SCHEMA}")
        if zlib.crc32(body) != head["crc"]:
            raise ShelfError("index data is damaged: its checksum is wrong")
        parts = dict(_parts(head["parts"], body))
        releases = json.loads(decompress(parts["releases"]))
        tables = Tables(parts)
        unread = tables.part(UNREAD)
        project, built, reader = head["project"], head["built"], head["reader"]
        stated = [row[key] for row in releases for key in ("version", "date", "file", "sha256")]
        if not all(isinstance(text, str) for text in (project, built, reader, *stated)):
            raise ShelfError("index data is damaged: a name that is no text")
        return Shelf(project, built, reader, tuple(releases), tables, unread)
    except (ColumnError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, ShelfError):
            raise
        raise ShelfError(f"index data is damaged: {type(error).__name__}: {error}") from error


def _parts(named: Iterable[tuple[str, int]], body: bytes) -> Iterator[tuple[str, bytes]]:
    at = 0
    for name, length in named:
        yield name, body[at : at + length]
        at += length
    if at != len(body):
        raise ShelfError("index data is damaged: parts are missing")
