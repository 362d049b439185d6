"""What a module binds at its top level, read from its syntax tree.

An outline is small and depends on the module's text alone, so whoever reads many releases can keep
outlines by content, where keeping syntax trees would take gigabytes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from hashlib import blake2b

from canserve.engines.sources import Sources
from canserve.engines.static.guards import truth
from canserve.facts import Fact, Known, Missing

INSTALLED = frozenset({"torch", "pt", "torchvision", "speech", "torchaudio", "vision", "tokenizers",
                       "sentencepiece", "safetensors", "numpy", "scipy", "regex", "protobuf"})  # fmt: skip
"""Optional dependencies of transformers that both engines bring along, by its own names for them."""
NOT_INSTALLED = frozenset({"tf", "flax", "jax", "keras_nlp", "tensorflow_text"})
FLAGS = ("_supports_attention_backend", "_supports_flex_attn")
"""Class attributes of model classes that are kept."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an imported name comes from, as written: ``from ..utils import logging``."""

    level: int
    module: str
    name: str | None
    """None: ``import module``, or a star import."""

    def absolute(self, importer: str, is_package: bool) -> str:
        """The dotted module, seen from the module that imports it."""
        if self.level == 0:
            return self.module
        parts = importer.split(".")
        keep = len(parts) - self.level + (1 if is_package else 0)
        return ".".join([*parts[: max(keep, 0)], *filter(None, [self.module])])


@dataclass(frozen=True, slots=True)
class ClassOutline:
    """A class statement: its bases as written, and those of its attributes that are kept."""

    bases: tuple[str, ...]
    flags: Mapping[str, bool | None]
    """Of ``FLAGS`` those that it sets itself; None: not to a constant."""


@dataclass
class Outline:
    """The top level of one module, for an environment with ``INSTALLED``."""

    names: dict[str, bool] = field(default_factory=dict)
    """Names bound when the module is imported; False: only under a condition that is not decided."""
    imports: dict[str, Origin] = field(default_factory=dict)
    stars: list[Origin] = field(default_factory=list)
    classes: dict[str, ClassOutline] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    """``Name = OtherName`` statements."""
    exports: tuple[str, ...] | None = None
    """``__all__``, where it is one plain list."""
    is_lazy: bool = False
    """Whether the module puts a ``_LazyModule`` in its own place."""


class Outlines:
    """Outlines of one distribution's modules."""

    def __init__(self, sources: Sources, memory: dict[bytes, Outline] | None = None) -> None:
        self.sources = sources
        self._memory: dict[bytes, Outline] = {} if memory is None else memory
        """Outlines by content, which releases of one library share."""
        self._known: dict[str, Fact[Outline | None]] = {}

    def of(self, path: str) -> Fact[Outline | None]:
        """The outline of a file; ``Known(None)``: there is no such file."""
        if path not in self._known:
            self._known[path] = self._read(path)
        return self._known[path]

    def found(self, path: str | None) -> Outline | None:
        """The outline of a file, or None where there is none to be had."""
        fact = self.of(path) if path else None
        return fact.value if isinstance(fact, Known) else None

    def _read(self, path: str) -> Fact[Outline | None]:
        raw = self.sources.raw(path)
        if isinstance(raw, Missing) or raw.value is None:
            return raw if isinstance(raw, Missing) else Known(None, raw.evidence)
        key = blake2b(raw.value, digest_size=16).digest()
        if key not in self._memory:
            tree = self.sources.parse(path)
            if isinstance(tree, Missing):
                return tree
            try:
                self._memory[key] = outline(tree.value or ast.Module([], []))
            except RecursionError:
                return self.sources.unreadable(path, "its statements are nested too deeply")
        return Known(self._memory[key], raw.evidence)


def outline(tree: ast.Module) -> Outline:
    """The outline of a parsed module."""
    found = Outline()
    surely = _block(found, tree.body)
    found.names.update(dict.fromkeys(surely, True))
    return found


def _block(found: Outline, body: Sequence[ast.stmt]) -> set[str]:
    """Note what the statements bind; return the names that they bind whatever happens."""
    surely: set[str] = set()
    for statement in body:
        match statement:
            case ast.If(test=test, body=then, orelse=otherwise):
                taken = decide(test)
                branches = [_block(found, branch) for branch in _possible(taken, then, otherwise)]
                surely |= set.intersection(*branches)
            case ast.Try() | ast.TryStar():
                surely |= _attempt(found, statement)
            case ast.With(body=inner) | ast.For(body=inner) | ast.While(body=inner):
                surely |= _bind(found, _targets(statement)) | _block(found, inner)
            case ast.Delete():
                gone = set(_targets(statement))
                surely -= gone
                for name in gone:
                    found.names.pop(name, None)
            case _:
                surely |= _statement(found, statement)
    return surely


def _possible(
    taken: bool | None, then: list[ast.stmt], otherwise: list[ast.stmt]
) -> tuple[list[ast.stmt], ...]:
    if taken is None:
        return (then, otherwise)
    return (then,) if taken else (otherwise,)


def _attempt(found: Outline, statement: ast.Try | ast.TryStar) -> set[str]:
    surely = _block(found, [*statement.body, *statement.orelse])
    for handler in statement.handlers:
        bound = _block(found, handler.body)
        if not isinstance(handler.body[-1], ast.Raise):
            surely &= bound
    return surely | _block(found, statement.finalbody)


def _statement(found: Outline, statement: ast.stmt) -> set[str]:
    match statement:
        case ast.ImportFrom(level=level, module=module, names=names):
            named = [alias for alias in names if alias.name != "*"]
            if len(named) < len(names):
                found.stars.append(Origin(level, module or "", None))
            for alias in named:
                origin = Origin(level, module or "", alias.name)
                found.imports.setdefault(alias.asname or alias.name, origin)
            return _bind(found, (alias.asname or alias.name for alias in named))
        case ast.Import(names=names):
            for alias in names:
                found.imports.setdefault(alias.asname or alias.name, Origin(0, alias.name, None))
            return _bind(found, (alias.asname or alias.name.split(".")[0] for alias in names))
        case ast.ClassDef(name=name):
            found.classes.setdefault(name, _class(statement))
            return _bind(found, [name])
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return _bind(found, [name])
        case ast.Assign() | ast.AnnAssign() | ast.AugAssign() if statement.value is not None:
            return _assignment(found, statement, statement.value)
        case _:
            return set()


def _assignment(found: Outline, statement: ast.stmt, value: ast.expr) -> set[str]:
    names = list(_targets(statement))
    if isinstance(value, ast.Name):
        found.aliases.update(dict.fromkeys(names, value.id))
    if "__all__" in names and isinstance(value, ast.List | ast.Tuple):
        words = (item.value for item in value.elts if isinstance(item, ast.Constant))
        exports = (found.exports or ()) if isinstance(statement, ast.AugAssign) else ()
        found.exports = (*exports, *(word for word in words if isinstance(word, str)))
    if isinstance(value, ast.Call) and _dotted(value.func) == "_LazyModule":
        found.is_lazy = True
    if isinstance(value, ast.Call) and _dotted(value.func) == "deprecate_attr" and names == ["__getattr__"]:
        return _bind(found, _deprecated(value))
    return _bind(found, names)


def _deprecated(call: ast.Call) -> Iterator[str]:
    """Names that ``__getattr__ = deprecate_attr(__name__, rename={"Old": (New, "6.0")})`` still serves."""
    for keyword in call.keywords:
        for key in keyword.value.keys if isinstance(keyword.value, ast.Dict) else ():
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield key.value


def _bind(found: Outline, names: Iterable[str]) -> set[str]:
    bound = set(names)
    for name in bound:
        found.names.setdefault(name, False)
    return bound


def _targets(statement: ast.stmt) -> Iterator[str]:
    """Names stored to or deleted by a statement's own targets."""
    parts: list[ast.expr] = []
    match statement:
        case ast.Assign(targets=targets) | ast.Delete(targets=targets):
            parts = targets
        case ast.AnnAssign(target=target) | ast.AugAssign(target=target) | ast.For(target=target):
            parts = [target]
        case ast.With(items=items):
            parts = [item.optional_vars for item in items if item.optional_vars is not None]
        case _:
            pass
    for part in parts:
        for node in part.elts if isinstance(part, ast.Tuple | ast.List) else [part]:
            if isinstance(node, ast.Name):
                yield node.id


def _class(node: ast.ClassDef) -> ClassOutline:
    flags: dict[str, bool | None] = {}
    for statement in node.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            value = statement.value.value if isinstance(statement.value, ast.Constant) else None
            for name in _targets(statement):
                if name in FLAGS:
                    flags[name] = value if isinstance(value, bool) else None
        elif isinstance(statement, ast.FunctionDef) and statement.name in FLAGS:
            flags[statement.name] = None
    return ClassOutline(tuple(_dotted(base) for base in node.bases), flags)


def _dotted(node: ast.expr) -> str:
    """``a.b.C`` of a base class, without subscripts; empty for anything that is not a name."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=owner, attr=name):
            return f"{inside}.{name}" if (inside := _dotted(owner)) else ""
        case ast.Subscript(value=owner):
            return _dotted(owner)
        case _:
            return ""


def decide(test: ast.expr) -> bool | None:
    """Truth of a condition where ``INSTALLED`` is there; None when that does not decide it."""
    return truth(_Available().visit(deepcopy(test)))  # the tree belongs to others too


class _Available(ast.NodeTransformer):
    """Puts the answer in the place of ``is_torch_available()``."""

    def visit_Call(self, node: ast.Call) -> ast.expr:
        name = _dotted(node.func).rsplit(".", 1)[-1]
        if name.startswith("is_") and name.endswith("_available") and not node.args:
            package = name.removeprefix("is_").removesuffix("_available")
            if package in INSTALLED | NOT_INSTALLED:
                return ast.copy_location(ast.Constant(package in INSTALLED), node)
        return node
