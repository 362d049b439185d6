"""What was read so far: a line for every release, kept until the whole is written.

A line holds all of a release or is not counted, so a run that was stopped at any moment goes on from there.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import zlib
from pathlib import Path

from canserve.index.rows import Row, interned

MAX_LINE = 32 << 20
"""Bytes of one release."""


class Journal:
    """A project's lines in the user's folder."""

    def __init__(self, folder: Path, project: str, reader: str) -> None:
        self._path = folder / f"{project}.partial"
        self._reader = reader

    def rows(self) -> dict[str, Row]:
        """By sha256: what the same reader read. A line that was cut short, or is of others, is left out."""
        try:
            lines = self._path.read_bytes().split(b"\n")
        except OSError:
            return {}
        rows = (_row(line, self._reader) for line in lines)
        return {row.sha256: row for row in rows if row is not None}

    def add(self, row: Row) -> None:
        """Keep one release; whole or not at all. Raises OSError."""
        text = json.dumps([self._reader, row.sha256, row.said, row.names], separators=(",", ":"))
        line = base64.b64encode(zlib.compress(text.encode(errors="backslashreplace")))
        self._path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            # The first line end closes what an interrupted run may have left half written.
            os.write(handle, b"\n" + line + b"\n")
        finally:
            os.close(handle)

    def drop(self) -> None:
        """Forget it all: it stands in the index now."""
        self._path.unlink(missing_ok=True)


def _row(line: bytes, wanted: str) -> Row | None:
    try:
        machine = zlib.decompressobj()
        text = machine.decompress(base64.b64decode(line, validate=True), MAX_LINE)
        if not machine.eof:
            return None
        reader, sha256, said, names = json.loads(text)
        return Row(sha256, said, interned(names)) if reader == wanted else None
    except (binascii.Error, zlib.error, ValueError, TypeError, AttributeError):
        return None
