"""Leaving out the bodies of long functions: most of a tree's memory, and hardly ever followed."""

from __future__ import annotations

import ast

from canserve.engines.sources import Sources
from canserve.facts import Known

LONG = 8
"""Lines from which on a function's body is left out."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Shed(ast.Pass):
    """Stands where a body was left out."""


def shed(body: list[ast.stmt]) -> None:
    """Leave out the bodies of long functions and methods of a module or class."""
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                if (node.end_lineno or 0) - node.lineno >= LONG:
                    node.body = [Shed()]
            case ast.ClassDef() | ast.If() | ast.With():
                shed(node.body)
                shed(getattr(node, "orelse", []))
            case ast.Try():
                for part in (node.body, node.orelse, node.finalbody, *(h.body for h in node.handlers)):
                    shed(part)
            case _:
                pass


def whole(sources: Sources, path: str, node: Function) -> Function | None:
    """The function with its body, parsed again where it was left out; None: it is not there any more."""
    if not isinstance(node.body[0], Shed):
        return node
    text = sources.text(path)
    if not isinstance(text, Known) or text.value is None:
        return None
    start = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    lines = text.value.removeprefix("\ufeff").splitlines()[start - 1 : node.end_lineno]
    try:  # below an ``if`` it may keep its indentation, which strings inside it rely on
        found = ast.parse("if 1:\n" + "\n".join(lines) if node.col_offset else "\n".join(lines)).body[0]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    inner = found.body[0] if isinstance(found, ast.If) else found
    if not isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef) or inner.name != node.name:
        return None
    return ast.increment_lineno(inner, start - 1 - (1 if node.col_offset else 0))
