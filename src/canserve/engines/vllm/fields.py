"""What may follow a flag that is made from a dataclass field: the engine derives it from the annotation.

Follows the engine's ``get_kwargs``: booleans become ``--x`` and ``--no-x``, literals become choices (free
text beside ``str``), collections take several values, dicts and dataclasses take JSON.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from canserve.engines.static.graph import ClassGraph
from canserve.engines.static.parsing import expression
from canserve.engines.static.sites import Assigned, ClassSite
from canserve.engines.static.values import Choices, strings

MAX_DEPTH = 12
"""Aliases of aliases that are followed."""
_WRAPPERS = {"Annotated", "SkipValidation", "InitVar", "Final", "Required", "NotRequired"}
_BUILTIN = {"bool": "bool", "str": "str", "int": "int", "float": "float", "None": "None"}
_COLLECTIONS = {
    "list": "list", "List": "list", "Sequence": "list", "tuple": "list", "Tuple": "list", "set": "list",
    "Set": "list", "frozenset": "list", "dict": "dict", "Dict": "dict", "Mapping": "dict",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Hint:
    """One member of a field's type: its kind, and the choices of a literal."""

    kind: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Shape:
    """What may follow the flag (see ``Flag.kind``), and which values."""

    kind: str | None
    choices: tuple[str, ...] | None = None


class Fields:
    """Reads fields of the build's own dataclasses."""

    def __init__(self, graph: ClassGraph) -> None:
        self._graph = graph

    def of(self, site: ClassSite) -> Iterator[tuple[str, ast.AnnAssign, ClassSite]]:
        """Every annotated field with the class that declares it, base classes first."""
        classes, _ = self._graph.mro(site)
        seen: dict[str, tuple[str, ast.AnnAssign, ClassSite]] = {}
        for owner in reversed(classes):
            for node in owner.node.body:
                if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
                    continue
                if not ast.unparse(node.annotation).startswith(("ClassVar", "typing.ClassVar")):
                    seen[node.target.id] = (node.target.id, node, owner)
        return iter(seen.values())

    def shape(self, node: ast.AnnAssign, owner: ClassSite) -> Shape:
        """What the annotation makes of the flag."""
        hints = list(self._hints(node.annotation, owner.module, owner.path, 0))
        kinds = {hint.kind for hint in hints}
        if "dataclass" in kinds:
            return Shape("json")
        if "bool" in kinds:
            return Shape(None) if kinds == {"bool", "str", "None"} else Shape("pair")
        for hint in hints:
            if hint.kind == "literal":
                return Shape("value", None if "str" in kinds else hint.choices)
        if "list" in kinds:
            return Shape("values")
        if kinds & {"int", "float"} or "dict" not in kinds:
            return Shape("value")
        return Shape("json")

    def _hints(self, node: ast.expr, module: str, path: str, depth: int) -> Iterator[Hint]:
        if depth > MAX_DEPTH:
            yield Hint("other")
            return
        match node:
            case ast.Constant(value=None):
                yield Hint("None")
            case ast.Constant(value=str() as text):
                yield from self._quoted(text, module, path, depth)
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                yield from self._hints(left, module, path, depth + 1)
                yield from self._hints(right, module, path, depth + 1)
            case ast.Subscript():
                yield from self._subscript(node, module, path, depth)
            case ast.Name() | ast.Attribute():
                yield from self._named(node, module, depth)
            case _:
                yield Hint("other")

    def _quoted(self, text: str, module: str, path: str, depth: int) -> Iterator[Hint]:
        try:
            inner = expression(text[:2000])
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            yield Hint("other")
            return
        yield from self._hints(inner, module, path, depth + 1)

    def _subscript(self, node: ast.Subscript, module: str, path: str, depth: int) -> Iterator[Hint]:
        word = ast.unparse(node.value).rsplit(".", 1)[-1]
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if word == "Literal":
            value = self._graph.constants.value(path, node)
            yield Hint("literal", strings(value) or ()) if isinstance(value, Choices) else Hint("other")
        elif word in _COLLECTIONS:
            yield Hint(_COLLECTIONS[word])
        elif word in {"Optional", "Union"} or word in _WRAPPERS:
            for part in parts[:1] if word in _WRAPPERS else parts:
                yield from self._hints(part, module, path, depth + 1)
            if word == "Optional":
                yield Hint("None")
        else:
            yield Hint("other")

    def _named(self, node: ast.Name | ast.Attribute, module: str, depth: int) -> Iterator[Hint]:
        word = node.id if isinstance(node, ast.Name) else node.attr
        if isinstance(node, ast.Name) and word in _BUILTIN:
            yield Hint(_BUILTIN[word])
            return
        if word in _COLLECTIONS:
            yield Hint(_COLLECTIONS[word])
            return
        site = self._graph.resolve_expression(module, node)[0]
        if isinstance(site, ClassSite):
            yield Hint("dataclass" if _is_dataclass(site) else "other")
        elif isinstance(site, Assigned) and site.node is not node:
            yield from self._hints(site.node, site.module, site.path, depth + 1)
        else:
            yield Hint("other")


def _is_dataclass(site: ClassSite) -> bool:
    """Whether the class is decorated as a dataclass, directly or by the engine's ``@config``."""
    words = [ast.unparse(d.func if isinstance(d, ast.Call) else d) for d in site.node.decorator_list]
    return any(word.rsplit(".", 1)[-1] in {"dataclass", "config"} for word in words)
