"""Python's own parser, for several threads at once."""

from __future__ import annotations

import ast

TRIES = 50
"""Of one text; two threads rarely meet twice."""


def parsed(text: str) -> ast.Module:
    """``ast.parse``. Raises what that raises for a text: SyntaxError, ValueError, RecursionError, MemoryError.

    CPython 3.11 counts how deeply trees are nested for all threads together, and raises SystemError ("AST constructor
    recursion depth mismatch") where another one parses at the same moment: nothing is wrong with the text then.
    """
    for _ in range(TRIES - 1):
        try:
            return ast.parse(text)
        except SystemError:
            continue
    return ast.parse(text)


def expression(text: str) -> ast.expr:
    """The same of one expression."""
    for _ in range(TRIES - 1):
        try:
            return ast.parse(text, mode="eval").body
        except SystemError:
            continue
    return ast.parse(text, mode="eval").body
