"""Leaving out what classes and functions contain, until one is asked for.

Of the thousands of classes and functions in the modules of an engine a reading follows a few. Their bodies
are most of a tree's memory, and are parsed again, each on its own, when they are needed.
"""

from __future__ import annotations

import ast
from typing import TypeVar

from canserve.engines.sources import Sources
from canserve.engines.static.parsing import parsed
from canserve.facts import Known

LONG = 2
"""Lines below its head from which on the body of a function or class is left out."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
Block = TypeVar("Block", bound=ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)


class Shed(ast.Pass):
    """Stands where a body was left out; its line is the one on which the whole begins."""


def shed(body: list[ast.stmt], methods: bool = False) -> None:
    """Leave out what the functions and classes among these statements consist of.

    Methods keep their decorators and the names of their parameters, which are asked for time and again.
    """
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                if (node.end_lineno or 0) - node.lineno >= LONG:
                    _empty(node, methods)
            case ast.If() | ast.With():
                shed(node.body, methods)
                shed(getattr(node, "orelse", []), methods)
            case ast.Try():
                for part in (node.body, node.orelse, node.finalbody, *(h.body for h in node.handlers)):
                    shed(part, methods)
            case _:
                pass


def _empty(node: ast.ClassDef | Function, method: bool) -> None:
    start = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    node.body = [Shed(lineno=start)]
    if isinstance(node, ast.ClassDef):
        node.bases, node.keywords, node.decorator_list = [], [], []
    elif not method:
        node.args, node.returns, node.decorator_list = ast.arguments([], [], None, [], [], None, []), None, []
    elif node.name != "__init__":  # whose annotations say which config a class takes
        node.returns = None
        given = node.args
        rest = [arg for arg in (given.vararg, given.kwarg) if arg is not None]
        for arg in (*given.posonlyargs, *given.args, *given.kwonlyargs, *rest):
            arg.annotation = None


class Bodies:
    """Brings left out bodies back."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._again: dict[int, ast.stmt | None] = {}
        self._path = ""
        self._lines: list[str] = []

    def whole(self, path: str, node: Block) -> Block | None:
        """The function or class as it is written; of a class, the bodies of its methods stay out.

        None: it cannot be parsed again. The node must be kept by the caller, as its identity stands for it.
        """
        if not isinstance(node.body[0], Shed):
            return node
        if id(node) not in self._again:
            self._again[id(node)] = self._parse(path, node)
        again = self._again[id(node)]
        if not isinstance(again, type(node)) or again.name != node.name:
            return None
        return again

    def _parse(self, path: str, node: ast.ClassDef | Function) -> ast.stmt | None:
        start = node.body[0].lineno
        text = "\n".join(self._lines_of(path)[start - 1 : node.end_lineno])
        try:  # below an ``if`` it may keep its indentation, which strings inside it rely on
            found = parsed(f"if 1:\n{text}" if node.col_offset else text).body[0]
        except (SyntaxError, ValueError, RecursionError, MemoryError, IndexError):
            return None
        again = found.body[0] if isinstance(found, ast.If) and node.col_offset else found
        if isinstance(again, ast.ClassDef):
            shed(again.body, methods=True)
        return ast.increment_lineno(again, start - 1 - bool(node.col_offset))

    def _lines_of(self, path: str) -> list[str]:
        """Lines as Python's parser counts them (``splitlines`` would split at form feeds and more)."""
        if path != self._path:
            fact = self._sources.text(path)
            text = fact.value or "" if isinstance(fact, Known) else ""
            self._lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
            self._path = path
        return self._lines
