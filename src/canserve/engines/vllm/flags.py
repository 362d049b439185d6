"""Command line flags of the server.

The names are literal in ``add_argument("--x", ...)`` in every release; what follows them stands beside, or
since ``get_kwargs(ModelConfig)`` in a config dataclass. The front end's flags are literal as well, and later
the fields of ``FrontendArgs``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import replace

from canserve.engines.static.modules import module_of
from canserve.engines.static.values import strings
from canserve.engines.vllm.fields import Fields, Shape
from canserve.engines.vllm.reading import Reading
from canserve.engines.vllm.serving import ARGUMENTS, FRONT_ENDS, SERVE
from canserve.facts import Fact, Missing
from canserve.subjects.build import Flag, Site

OLD_SERVER = "vllm/entrypoints/openai/api_server.py"
FRONT_CLASS = "FrontendArgs"
_SWITCHES = {"store_true", "store_false", "store_const", "count", "help", "version"}


def flag_files(reading: Reading) -> list[str]:
    """The files in which flags of the server are declared, those that are there."""
    front = [path for path in reading.sources.under(FRONT_ENDS) if path.endswith("/cli_args.py")]
    paths = [*ARGUMENTS, *front, SERVE, *([] if front else [OLD_SERVER])]
    return [path for path in paths if reading.sources.has(path)]


def read_flags(reading: Reading) -> Fact[Mapping[str, Flag]]:
    """Every flag by its long name."""
    for path in (*ARGUMENTS, SERVE, f"{FRONT_ENDS}openai/cli_args.py"):
        if (missing := reading.sources.gap(path)) is not None:
            return missing
    paths = flag_files(reading)
    reading.sources.prefetch(paths)
    fields = Fields(reading.graph)
    flags: dict[str, Flag] = {}
    for path in paths:
        tree = reading.tree(path)
        if isinstance(tree, Missing):
            return tree
        for flag in (*_arguments(reading, fields, path, tree), *_front_fields(reading, fields, path)):
            flags.setdefault(flag.name, flag)
    if not flags:
        return reading.unknown_form(ARGUMENTS[0], "no flag is declared where it is expected")
    return reading.known(flags, f"{len(flags)} flags", *paths)


def _arguments(reading: Reading, fields: Fields, path: str, tree: ast.Module | None) -> Iterator[Flag]:
    """Flags of ``add_argument`` calls in one file."""
    for function in ast.walk(tree) if tree is not None else ():
        if not isinstance(function, ast.FunctionDef):
            continue
        sources = _derived(function)
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and _word(node.func) == "add_argument":
                names = [
                    a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)
                ]
                long = next((name for name in names if name.startswith("--")), None)
                if long is not None:
                    shape = _shape(reading, fields, path, node, sources)
                    others = tuple(name for name in names if name != long and name.startswith("-"))
                    yield Flag(long, shape.choices, Site(path, node.lineno), others, shape.kind)


def _derived(function: ast.FunctionDef) -> dict[str, str]:
    """``model_kwargs = get_kwargs(ModelConfig)``: the variable and the class."""
    out: dict[str, str] = {}
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(args=[ast.Name(id=cls)]) as call):
                if _word(call.func) == "get_kwargs":
                    out[name] = cls
            case _:
                pass
    return out


def _shape(reading: Reading, fields: Fields, path: str, call: ast.Call, sources: Mapping[str, str]) -> Shape:
    shape = Shape("value")
    for key, value in sorted(_given(call), key=lambda pair: pair[0] is not None):
        match key, value:
            case None, ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str() as field)):
                derived = name in sources
                shape = _of_field(reading, fields, path, sources[name], field) if derived else Shape(None)
            case None, _:
                shape = Shape(None)
            case str(), _:
                shape = _changed(reading, path, shape, key, value)
    return shape


def _given(call: ast.Call) -> Iterator[tuple[str | None, ast.expr]]:
    """The named arguments of a call; those of ``**{**spread, "key": value}`` too, a spread without name."""
    pending: list[tuple[str | None, ast.expr]] = [(keyword.arg, keyword.value) for keyword in call.keywords]
    while pending:
        key, value = pending.pop()
        if key is None and isinstance(value, ast.Dict):
            for name, item in zip(value.keys, value.values, strict=True):
                pending.append((str(name.value) if isinstance(name, ast.Constant) else None, item))
        else:
            yield key, value


def _of_field(reading: Reading, fields: Fields, path: str, cls: str, field: str) -> Shape:
    site = reading.graph.class_named(module_of(path), cls)
    if site is not None:
        for name, node, owner in fields.of(site):
            if name == field:
                return fields.shape(node, owner)
    return Shape(None)


def _changed(reading: Reading, path: str, shape: Shape, key: str, value: ast.expr) -> Shape:
    """The shape after one argument of ``add_argument``, or one change of the dict that becomes them."""
    text = ast.unparse(value)
    match key:
        case "action":
            word = value.value if isinstance(value, ast.Constant) else text.rsplit(".", 1)[-1]
            if word in _SWITCHES:
                return replace(shape, kind="switch")
            if word == "BooleanOptionalAction":
                return replace(shape, kind="pair")
            return replace(shape, kind="value" if word in {"store", "append"} else shape.kind)
        case "nargs":
            return replace(shape, kind=None if text in {"'?'", "None"} else "values")
        case "type" if "json.loads" in text:
            return replace(shape, kind="json")
        case "choices":
            found = strings(reading.graph.constants.value(path, value))
            return replace(shape, choices=found or None)
        case _:
            return shape


def _front_fields(reading: Reading, fields: Fields, path: str) -> Iterator[Flag]:
    """Flags made from the fields of ``FrontendArgs``, where the file defines it as a dataclass."""
    site = reading.graph.class_named(module_of(path), FRONT_CLASS)
    if site is None or site.path != path:
        return
    changes = list(_changes(reading, path))
    for name, node, owner in fields.of(site):
        shape = fields.shape(node, owner)
        for field, key, value in changes:
            if field == name:
                shape = Shape("value") if value is None else _changed(reading, path, shape, key, value)
        yield Flag(
            f"--{name.replace('_', '-')}", shape.choices, Site(owner.path, node.lineno), (), shape.kind
        )


def _changes(reading: Reading, path: str) -> Iterator[tuple[str, str, ast.expr | None]]:
    """``frontend_kwargs["field"]["type"] = value``, or ``del`` of it (value None)."""
    tree = reading.tree(path)
    for node in ast.walk(tree) if isinstance(tree, ast.Module) else ():
        match node:
            case ast.Assign(
                targets=[
                    ast.Subscript(
                        value=ast.Subscript(slice=ast.Constant(value=str() as field)),
                        slice=ast.Constant(value=str() as key),
                    )
                ],
                value=value,
            ):
                yield field, key, value
            case ast.Delete(
                targets=[
                    ast.Subscript(
                        value=ast.Subscript(slice=ast.Constant(value=str() as field)),
                        slice=ast.Constant(value="nargs"),
                    )
                ]
            ):
                yield field, "nargs", None
            case _:
                pass


def _word(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
