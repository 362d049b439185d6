"""Single statements cut out of a large file, so that one answer does not cost parsing all of it.

A file of 300 kB takes a quarter of a second to parse; the three lines that matter take none. What is cut
out is whole Python, found by its own brackets and indentation; where that fails the answer is None, and
the caller parses the file.
"""

from __future__ import annotations

import ast
import io
import itertools
import re
import tokenize
import warnings
from typing import TypeAlias

from canserve.engines.static.parsing import parsed

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
MAX_SNIPPET = 60_000
"""Characters of one snippet; the longest argument declaration measured had 5,000."""


MAX_MATCHES = 500
"""Places of one file that are looked at; the largest number measured was 25."""


def bracketed(text: str, start: int) -> str | None:
    """The text from ``start`` to the end of the next bracket; None if that does not end."""
    piece = text[start : start + MAX_SNIPPET]
    depth = 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(piece).readline):
            if token.type == tokenize.OP and token.string in "([{":
                depth += 1
            elif token.type == tokenize.OP and token.string in ")]}":
                depth -= 1
                if depth <= 0:
                    return _until(piece, token.end)
    except (tokenize.TokenError, IndentationError, SyntaxError):
        return None
    return None


def _until(piece: str, end: tuple[int, int]) -> str:
    lines = list(io.StringIO(piece))  # splits where tokenize does
    return "".join(lines[: end[0] - 1]) + lines[end[0] - 1][: end[1]]


def expression_at(text: str, start: int) -> ast.expr | None:
    """The bracketed expression that begins at ``start``: a call, a list, a subscript."""
    piece = bracketed(text, start)
    if piece is None:
        return None
    tree = _parsed(f"({piece.strip()})")
    statement = tree.body[0] if tree is not None and len(tree.body) == 1 else None
    return statement.value if isinstance(statement, ast.Expr) else None


def functions(text: str, names: str) -> list[Function] | None:
    """Functions and methods whose whole name matches the pattern, with the line numbers of the file.

    None: one of them could not be cut out (a string reaches the left margin), so the file must be parsed.
    """
    found = []
    for match in matches(rf"^([ \t]*)(?:async )?def (?:{names})\(", text):
        function = _function(text, match.start(), match[1])
        if function is None:
            return None
        found.append(function)
    return found


def _function(text: str, start: int, indent: str) -> Function | None:
    signature = bracketed(text, start + len(indent))
    if signature is None:
        return None
    after = start + len(indent) + len(signature)
    end = re.compile(rf"\n(?!{indent}[ \t])[ \t]*[^\s#)\]}}]").search(text, after)
    piece = text[start : min(end.start() if end else len(text), start + MAX_SNIPPET)]
    tree = _parsed(f"if 1:\n{piece}" if indent else f"\n{piece}")
    outer = [] if tree is None else tree.body
    node = outer[0].body[0] if outer and isinstance(outer[0], ast.If) else next(iter(outer), None)
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    ast.increment_lineno(node, text.count("\n", 0, start) - 1)
    return node


def _parsed(text: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():  # invalid escapes in other people's strings are not our talk
            warnings.simplefilter("ignore")
            return parsed(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def matches(pattern: str, text: str) -> list[re.Match[str]]:
    """Where a pattern occurs, ``^`` being the start of any line; the first ``MAX_MATCHES`` places."""
    return list(itertools.islice(re.finditer(pattern, text, re.MULTILINE), MAX_MATCHES))


def line_of(text: str, offset: int) -> int:
    """The line number, from 1, of a character."""
    return text.count("\n", 0, offset) + 1
