"""Constants of the model of speed: ``speed.toml``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

from canserve.rules.table import Row, load

FILE = "speed.toml"
End = Literal["value", "low", "high"]
"""Which figure: the expected one, or an end of its interval."""


@dataclass(frozen=True, slots=True)
class Constant:
    """One constant with its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class LinkKind:
    """One kind of link: microseconds of a small all-reduce over two ranks."""

    name: str
    latency: Constant
    growth: float
    """What each doubling of the ranks adds, as a share of it."""


@cache
def constant(name: str) -> Constant:
    """A constant by its name in the table."""
    row = next(row for row in load(FILE).rows("constant") if row.values["name"] == name)
    return Constant(*(float(row.values[end]) for end in ("value", "low", "high")))


@cache
def link_kind(text: str) -> LinkKind | None:
    """The kind of link that a machine's words name; None: none that the table knows."""
    words = text.lower()
    return next(
        (_kind(row) for row in load(FILE).rows("link") if any(w in words for w in row.texts("words"))), None
    )


@cache
def named_link(name: str) -> LinkKind:
    """A kind of link by its name in the table."""
    return next(_kind(row) for row in load(FILE).rows("link") if row.values["name"] == name)


def _kind(row: Row) -> LinkKind:
    latency = Constant(*(float(row.values[end]) for end in ("latency", "low", "high")))
    return LinkKind(row.text("name"), latency, float(row.values["growth"]))
