"""Which draft class a build makes of a model that brings its own prediction layers (MTP, NextN).

``SpeculativeConfig.hf_config_override`` rewrites the target's config into the draft's: conditions on the
model type or the architecture, and below them another ``model_type`` or ``architectures``. The function is
not run; its conditions and what they lead to are read as a table. Where the source decides further at run
time (``"XMoeMTP" if is_moe else "XMTP"``), all classes it may come to are listed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from canserve.engines.vllm.reading import Reading
from canserve.facts import Fact, Missing
from canserve.subjects.build import Site

FILES = ("vllm/config/speculative.py", "vllm/config/__init__.py", "vllm/config.py")
"""Where the function has stood."""
FUNCTION = "hf_config_override"

_ABOUT = ("model_type", "architecture")
"""Words in a condition that say it is about the model type or the architecture."""


def draft_classes(reading: Reading) -> Fact[Mapping[str, tuple[str, ...]]]:
    """Architecture or model type -> draft classes; an empty table where the build has no such function."""
    paths = reading.existing(FILES)
    if isinstance(paths, Missing):
        return paths
    for path in paths:
        tree = reading.tree(path)
        if isinstance(tree, Missing):
            return tree
        found = _function(tree)
        if found is not None:
            try:
                table = draft_table(found)
            except RecursionError:
                return reading.unknown_form(path, f"{FUNCTION} nests too deeply")
            return reading.known(table, f"draft classes of {len(table)} models", Site(path, found.lineno))
    return reading.known({}, f"no {FUNCTION}", *paths)


def _function(tree: ast.Module | None) -> ast.FunctionDef | None:
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.FunctionDef) and node.name == FUNCTION:
            return node
    return None


@dataclass(slots=True)
class _Rows:
    """What the conditions of the function lead to."""

    function: ast.FunctionDef
    classes: dict[str, list[str]] = field(default_factory=dict)
    """Architecture or model type -> draft classes."""
    types: dict[str, list[str]] = field(default_factory=dict)
    """Architecture or model type -> the model types it is given."""

    def local(self, name: str) -> Iterator[ast.expr]:
        """Values that the function itself assigns to a name."""
        for node in ast.walk(self.function):
            if isinstance(node, ast.Assign) and any(
                isinstance(target, ast.Name) and target.id == name for target in node.targets
            ):
                yield node.value


def draft_table(function: ast.FunctionDef) -> dict[str, tuple[str, ...]]:
    """Architecture or model type -> draft classes, through the model types that it is given on the way."""
    rows = _Rows(function)
    _read_body(function.body, (), rows)
    table = {key: tuple(dict.fromkeys(found)) for key, found in rows.classes.items()}
    for key, given in rows.types.items():
        reached = [name for model_type in given for name in rows.classes.get(model_type, ())]
        if key not in table and reached:
            table[key] = tuple(dict.fromkeys(reached))
    return table


def _read_body(body: list[ast.stmt], keys: tuple[str, ...], rows: _Rows) -> None:
    """Rows of these statements, which run for the models that ``keys`` name."""
    for node in body:
        if isinstance(node, ast.If):
            _read_body(node.body, _keys(node.test) or keys, rows)
            _read_body(node.orelse, keys, rows)
        elif keys:
            for part in ast.walk(node):
                _read_part(part, keys, rows)


def _keys(test: ast.expr) -> tuple[str, ...]:
    """The model types and architectures that a condition asks for."""
    found: list[str] = []
    for node in ast.walk(test):
        match node:
            case ast.Compare(left=left, ops=[ast.Eq() | ast.In()], comparators=[right]):
                parts = [left, right]
            case ast.Call(func=ast.Attribute(value=owner, attr="intersection"), args=[other]):
                parts = [owner, other]
            case _:
                continue
        if any(word in ast.unparse(part) for part in parts for word in _ABOUT):
            found.extend(text for part in parts for text in _strings(part))
    return tuple(dict.fromkeys(found))


def _strings(node: ast.expr) -> Iterator[str]:
    """The strings of a literal; what is only asked of an object (``getattr(x, "y")``) is none of them."""
    match node:
        case ast.Constant(value=str() as text):
            yield text
        case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
            for element in elements:
                yield from _strings(element)
        case _:
            pass


def _read_part(node: ast.AST, keys: tuple[str, ...], rows: _Rows) -> None:
    """One assignment or dictionary that gives another model type or other architectures."""
    match node:
        case ast.Assign(targets=[ast.Attribute(attr="model_type")], value=value):
            _add(rows.types, keys, _strings(value))
        case ast.Assign(
            targets=[
                ast.Attribute(attr="architectures") | ast.Subscript(slice=ast.Constant("architectures"))
            ],
            value=value,
        ):
            _add_classes(value, keys, rows)
        case ast.Dict(keys=names, values=values):
            for name, value in zip(names, values, strict=True):
                if isinstance(name, ast.Constant) and name.value == "architectures":
                    _add_classes(value, keys, rows)
        case _:
            pass


def _add_classes(
    value: ast.expr, keys: tuple[str, ...], rows: _Rows, seen: frozenset[str] = frozenset()
) -> None:
    """The class names that a value may come to; a local table is asked for each key.

    ``seen``: local names that were followed on the way here; none is followed twice.
    """
    match value:
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            for element in elements:
                _add_classes(element, keys, rows, seen)
        case ast.IfExp(body=body, orelse=orelse):
            _add_classes(body, keys, rows, seen)
            _add_classes(orelse, keys, rows, seen)
        case ast.Constant(value=str() as name):
            _add(rows.classes, keys, (name,))
        case ast.Subscript(value=ast.Name(id=table)):
            for key, name in _local_table(rows, table):
                _add(rows.classes, [one for one in keys if one == key], (name,))
        case ast.Name(id=name) if name not in seen:
            for local in rows.local(name):
                _add_classes(local, keys, rows, seen | {name})
        case _:
            pass


def _local_table(rows: _Rows, name: str) -> Iterator[tuple[str, str]]:
    for value in rows.local(name):
        if isinstance(value, ast.Dict):
            for key, entry in zip(value.keys, value.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(entry, ast.Constant):
                    yield str(key.value), str(entry.value)


def _add(table: dict[str, list[str]], keys: Iterable[str], found: Iterable[str]) -> None:
    names = list(found)
    for key in keys:
        if names:
            table.setdefault(key, []).extend(names)
