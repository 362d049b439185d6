"""What served endpoints look like from outside: ``served.toml``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Literal

from canserve.rules.table import load

FILE = "served.toml"
Kind = Literal["reasoning", "tool", "turn"]


@dataclass(frozen=True, slots=True)
class Counters:
    """Names of one family of metrics."""

    running: tuple[str, ...]
    made: tuple[str, ...]
    replica: str
    """The label that tells replicas apart; empty: there is none."""


@dataclass(frozen=True, slots=True)
class Told:
    """A page of JSON beside the protocol, and the fields in it."""

    path: str
    context: tuple[str, ...]
    load_format: tuple[str, ...]


def marks_in(kind: Kind, text: str) -> tuple[str, ...]:
    """Marks of this kind that stand in a text."""
    return tuple(mark for mark in _marks(kind) if mark in text)


@cache
def _marks(kind: Kind) -> tuple[str, ...]:
    return tuple(mark for row in load(FILE).rows(kind) for mark in row.texts("marks"))


@cache
def counters() -> tuple[Counters, ...]:
    """Every family of metrics that is known."""
    return tuple(
        Counters(row.texts("running"), row.texts("made"), str(row.values.get("replica", "")))
        for row in load(FILE).rows("metrics")
    )


@cache
def metrics_pages() -> tuple[str, ...]:
    """Where metrics may be."""
    return tuple(row.text("path") for row in load(FILE).rows("metrics_page"))


@cache
def places() -> tuple[tuple[str, str], ...]:
    """Pages that list places for requests: path, and the field that says whether one is busy."""
    return tuple((row.text("path"), row.text("busy")) for row in load(FILE).rows("places"))


@cache
def told() -> tuple[Told, ...]:
    """Pages that tell what the protocol does not."""
    rows = load(FILE).rows("told")
    return tuple(Told(row.text("path"), row.texts("context"), row.texts("load_format")) for row in rows)


@cache
def listed_context() -> tuple[str, ...]:
    """Fields of a listed model that may hold its context."""
    return tuple(name for row in load(FILE).rows("listed") for name in row.texts("context"))


def field(document: object, names: Iterable[str]) -> object:
    """The first of these fields, joined by dots, that a JSON document has; None: none of them."""
    for name in names:
        found = document
        for part in name.split("."):
            found = found.get(part) if isinstance(found, dict) else None
        if found is not None:
            return found
    return None
