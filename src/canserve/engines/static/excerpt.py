"""Single statements and calls cut out of large files, where parsing the whole file would cost too much.

Right for constants that are written once (type aliases, enumerations, literal lists); tables that further
statements change are read with ``evaluate``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from canserve.engines.sources import Sources
from canserve.engines.static.bounds import STEPS, Budget, Exhausted, source_of
from canserve.engines.static.expressions import Expressions
from canserve.engines.static.parsing import parsed
from canserve.engines.static.values import Opaque, Ref, Value
from canserve.facts import Missing

ATTEMPTS = 60
"""Ends that are tried for one statement; a text block in column one may look like the next statement."""
CALL_ATTEMPTS = 200
"""Closing brackets that are tried for one call or list."""
_CLOSING = re.compile(r"[)\]}]")
_NEXT = re.compile(r"^[^\s#)\]}\"']", re.MULTILINE)


class Excerpts:
    """Looks names up in files by their text."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._found: dict[tuple[str, str], ast.stmt | Missing | None] = {}

    def text(self, path: str) -> str | Missing | None:
        """The file's text; None: no such file."""
        fact = self._sources.text(path)
        return fact if isinstance(fact, Missing) else fact.value

    def statement(self, path: str, name: str) -> ast.stmt | Missing | None:
        """The last top-level class, function or assignment of that name; None: there is none."""
        key = (path, name)
        if key not in self._found:
            text = self.text(path)
            self._found[key] = self._cut(path, text, name) if isinstance(text, str) else text
        return self._found[key]

    def _cut(self, path: str, text: str, name: str) -> ast.stmt | Missing | None:
        word = re.escape(name)
        head = rf"^(?:(?:class|def|async def) {word}\b|{word}\s*[:=](?!=))"
        starts = [match.start() for match in re.finditer(head, text, re.MULTILINE)]
        if not starts:  # of a file that is no Python, a name's absence proves nothing
            tree = self._sources.tree(path)
            return tree if isinstance(tree, Missing) else None
        node = _statement_at(text, starts[-1])
        return self._sources.unreadable(path, f"{name} is not parseable as Python") if node is None else node

    def value(self, path: str, name: str) -> Value | Missing | None:
        """An assigned constant, evaluated with what its names are in the same file."""
        node = self.statement(path, name)
        match node:
            case ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value):
                return self.evaluate(path, value)
            case ast.ClassDef():
                return self._enumeration(path, node)
            case Missing():
                return node
            case _:
                return None

    def _enumeration(self, path: str, node: ast.ClassDef) -> Value:
        """The values of an enumeration, by member."""
        members: dict[str, Value] = {}
        for statement in node.body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=member)], value=value):
                    members[member] = self.evaluate(path, value)
                case _:
                    pass
        return members

    def evaluate(self, path: str, node: ast.expr, names: Mapping[str, Value] | None = None) -> Value:
        """An expression's value in the context of a file."""
        run = _Run(self, path)
        run.env.update(names or {})
        try:
            return run.use(node)
        except Exhausted:
            return Opaque(source_of(node))

    def calls(self, path: str, function: str, containing: str) -> Iterator[ast.Call]:
        """Calls of a method (``add_argument``) whose text contains a string, each parsed on its own."""
        text = self.text(path)
        if not isinstance(text, str):
            return
        for match in re.finditer(re.escape(containing), text):
            start = text.rfind(f"{function}(", 0, match.start())
            node = _closed_at(text, start) if start >= 0 else None
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                yield node.value

    def assigned(self, path: str, name: str) -> ast.expr | None:
        """The value first assigned to a name at any depth, such as a list in a class body."""
        text = self.text(path)
        head = rf"^[ \t]*{re.escape(name)}[ \t]*(?::[^=\n]+)?=[ \t]*(?=[\[({{])"
        match = re.search(head, text, re.MULTILINE) if isinstance(text, str) else None
        if match is None or not isinstance(text, str):
            return None
        node = _closed_at(text, match.end())
        return node.value if isinstance(node, ast.Expr) else None


class _Run(Expressions):
    """Evaluation with names of one file, each looked up in its text."""

    def __init__(self, excerpts: Excerpts, path: str) -> None:
        super().__init__(Budget(STEPS // 4))
        self._excerpts = excerpts
        self._path = path

    def lookup(self, name: str) -> Value:
        if name not in self.env:
            self.env[name] = Ref(name)  # a name that leads to itself ends here
            node = self._excerpts.statement(self._path, name)
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                self.env[name] = self.use(node.value)
        return self.env[name]


def _statement_at(text: str, start: int) -> ast.stmt | None:
    """The shortest whole statement that starts here and ends before another one in column one."""
    following = _NEXT.finditer(text, start + 1)
    ends = [match.start() for match, _ in zip(following, range(ATTEMPTS), strict=False)]
    for end in [*ends, len(text)]:
        node = _parsed(text[start:end])
        if node is not None:
            return ast.increment_lineno(node, text.count("\n", 0, start))
    return None


def _parsed(chunk: str) -> ast.stmt | None:
    try:
        body = parsed(chunk).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return body[0] if body else None


def _closed_at(text: str, start: int) -> ast.stmt | None:
    """The shortest whole statement that starts here and ends with a closing bracket."""
    for match, _ in zip(_CLOSING.finditer(text, start), range(CALL_ATTEMPTS), strict=False):
        node = _parsed(text[start : match.end()])
        if node is not None:
            return ast.increment_lineno(node, text.count("\n", 0, start))
    return None
