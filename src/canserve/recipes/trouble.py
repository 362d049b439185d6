"""What makes a recipe unreadable as a whole, and the bounds within which it is read."""

from __future__ import annotations

MAX_CHARACTERS = 256 * 1024
MAX_NODES = 20_000
"""Of a document, what aliases stand for included."""
MAX_DEPTH = 40
MAX_WORDS = 20_000
MAX_GROWN = 4 << 20
"""Characters that variables and templates stand for, all together."""
MAX_OPEN = 500
WEIGHT = 100
"""Characters of a value that count as much as a further value, where aliases repeat it."""
MAX_NESTED = 6
"""Shells within shells, and defaults within defaults."""


class RecipeError(ValueError):
    """The recipe cannot be read. ``line`` counts from 1; None: it is about the whole."""

    def __init__(self, why: str, line: int | None = None) -> None:
        super().__init__(why if line is None else f"line {line}: {why}")
        self.why = why
        self.line = line


class UnknownFormError(RecipeError):
    """It is readable, and nothing says that it is a recipe at all."""
