"""Combinations that are known not to work: ``broken.toml``."""

from __future__ import annotations

from canserve.rules.table import Row, load
from canserve.units import Capability

FILE = "broken.toml"


def rows(engine: str, architectures: tuple[str, ...]) -> tuple[Row, ...]:
    """The rows that concern an engine and an architecture; releases, hardware and library not yet asked."""
    return tuple(
        row
        for row in load(FILE).rows("broken")
        if row.values["engine"] == engine and set(architectures) & set(row.texts("architectures"))
    )


def capabilities(row: Row) -> frozenset[Capability]:
    """The compute capabilities a row is about."""
    return frozenset(Capability.parse(text) for text in row.texts("capabilities"))
