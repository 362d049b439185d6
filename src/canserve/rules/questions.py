"""Questions with known answers: ``questions.toml``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Literal

from canserve.rules.table import Row, load

FILE = "questions.toml"
Kind = Literal["fact", "essay"]


@dataclass(frozen=True, slots=True)
class Question:
    """One question."""

    name: str
    ask: str
    accept: tuple[re.Pattern[str], ...]
    script: str
    """Letters that belong in an answer: ``Latin``, ``Han``, ``Japanese``, ``Cyrillic``."""
    words: tuple[str, ...]
    """Words that every longer text of its language holds; empty: its script tells enough."""
    alone: bool
    core: bool
    """Whether even the smallest model knows it: what fails here is the deployment."""


@cache
def questions(kind: Kind) -> tuple[Question, ...]:
    """All of a kind, in the order in which they are asked."""
    return tuple(_question(row) for row in load(FILE).rows(kind))


@cache
def named(name: str) -> Question:
    """One by its name."""
    return next(each for each in (*questions("fact"), *questions("essay")) if each.name == name)


def _question(row: Row) -> Question:
    return Question(
        row.text("name"),
        row.text("ask"),
        tuple(re.compile(pattern) for pattern in row.texts("accept")),
        row.text("script"),
        row.texts("words"),
        bool(row.values.get("alone")),
        bool(row.values.get("core")),
    )
