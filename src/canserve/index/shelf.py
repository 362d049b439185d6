"""Index data on disk: xz-compressed JSON, one file a project, and sets of releases written as runs.

``{"schema", "reader", "built", "project", "releases", "tables": {TABLE: {NAME: RUNS}}, "unread"}``: a release
is a row (version, date, file, sha256, transformers requirement), a table says by name in which releases it
occurs. Runs are positions in the list of releases (``"3-40,52"``). Support is not monotonic, so
a run only ever holds releases that were read; nothing is filled in between.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

SCHEMA = 1
"""Of the files; a file of another schema is not read."""
MAX_BYTES = 64 << 20
"""Of one decompressed file."""


@dataclass(frozen=True, slots=True)
class Shelf:
    """The index of one project."""

    project: str
    built: str
    """UTC date of the last change."""
    reader: str
    releases: tuple[Mapping[str, Any], ...]
    """Oldest first; every row has at least ``version``, ``date``, ``file`` and ``sha256``."""
    tables: Mapping[str, Mapping[str, str]]
    unread: Mapping[str, str]
    """Table -> releases in which it could not be read: there absence proves nothing."""

    def positions(self, table: str, name: str) -> range | list[int]:
        """Positions of the releases whose table holds the name."""
        return expand(self.tables.get(table, {}).get(name, ""))

    def version(self, position: int) -> str:
        """The version at a position."""
        return str(self.releases[position]["version"])


class ShelfError(ValueError):
    """Index data that is absent, damaged or of another schema."""


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
    content = {
        "schema": SCHEMA,
        "reader": shelf.reader,
        "built": shelf.built,
        "project": shelf.project,
        "releases": list(shelf.releases),
        "tables": shelf.tables,
        "unread": shelf.unread,
    }
    text = json.dumps(content, separators=(",", ":"), sort_keys=True)
    return lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME)


def unpack(data: bytes) -> Shelf:
    """A shelf from its bytes. Raises ShelfError."""
    try:
        inflater = lzma.LZMADecompressor()
        text = inflater.decompress(data, MAX_BYTES)
        if not inflater.eof:
            raise ShelfError("index data is cut short or too large")
        content = json.loads(text)
        if content["schema"] != SCHEMA:
            raise ShelfError(f"index data of schema {content['schema']}; this program reads {SCHEMA}")
        return Shelf(
            content["project"],
            content["built"],
            content["reader"],
            tuple(content["releases"]),
            content["tables"],
            content["unread"],
        )
    except (lzma.LZMAError, ValueError, KeyError, TypeError) as error:
        raise ShelfError(f"index data is damaged: {error}") from error


def shipped(project: str) -> Shelf:
    """The index that came with the package. Raises ShelfError."""
    place = files("canserve.index").joinpath("data", f"{project}.json.xz")
    try:
        return unpack(place.read_bytes())
    except FileNotFoundError:
        raise ShelfError(f"no index data of {project} is shipped") from None
