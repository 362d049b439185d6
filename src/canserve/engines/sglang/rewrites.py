"""Configs that SGLang edits in code, outside of any table.

Three kinds: a parse that fails is caught by the model type in its error text, and tried again with an
edited file; a config is read by a class of the engine because of its architecture; and fields of a config
that was parsed are written over (``if config.model_type == "x": config.architectures = ["Y"]``), among
them the architecture by which a model becomes its own draft.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from canserve.engines.sglang.configs import TABLE
from canserve.engines.sglang.places import CONFIG_LOADER, MODEL_CONFIG
from canserve.engines.sglang.reading import Reading
from canserve.engines.static.values import strings
from canserve.facts import Fact, Known
from canserve.subjects.build import Site

_SETTERS = {"_set_architectures"}
_DRAFT = "draft"


@dataclass(frozen=True, slots=True)
class Rewrite:
    """``if <field> in <values>: <config>.architectures = [<architecture>]``."""

    field: str
    """``architectures`` or ``model_type``."""
    values: tuple[str, ...]
    architecture: str
    draft: bool
    """Whether it applies to draft models only."""
    line: int


# -- before transformers


def read_fixups(reading: Reading) -> Fact[Mapping[str, Site]]:
    """Model types whose failing parse is caught and repaired."""
    path = reading.first(CONFIG_LOADER)
    if path is None:
        return Known({}, (reading.sources.seen(CONFIG_LOADER[-1], "no such file"),))
    found: dict[str, Site] = {}
    if "str(e)" in reading.text(path):
        for node in ast.walk(reading.tree(path)):
            if isinstance(node, ast.Try) and "AutoConfig.from_pretrained" in ast.unparse(
                ast.Module(node.body, [])
            ):
                for handler in node.handlers:
                    found.update(dict.fromkeys(_named_in_error(handler), Site(path, handler.lineno)))
    saw = f"repairs configs of type {', '.join(found)}" if found else "repairs no config before it is parsed"
    return Known(found, (reading.sources.seen(path, saw),))


def _named_in_error(handler: ast.ExceptHandler) -> Iterator[str]:
    """``"deepseek_v32" in str(error)``, or ``not in``."""
    for node in ast.walk(handler):
        match node:
            case ast.Compare(
                ast.Constant(str() as text), [ast.In() | ast.NotIn()], [ast.Call(ast.Name("str"))]
            ):
                yield text
            case _:
                pass


def read_architecture_types(reading: Reading) -> Fact[Mapping[str, str]]:
    """Architectures whose configs a class of the engine reads, whatever model type they name."""
    path = reading.first(CONFIG_LOADER)
    text = "" if path is None else reading.text(path)
    found: dict[str, str] = {}
    if path is not None and "get_config_dict" in text:
        for function in reading.functions(path, r"_try_load_\w+|_load_\w+"):
            model_type = next(filter(None, map(_table_entry, ast.walk(function))), None)
            if model_type is not None:
                for node in ast.walk(function):
                    if isinstance(node, ast.Compare):
                        listed = _literals(reading, path, node.comparators[0])
                        found.update(dict.fromkeys(listed, model_type))
    look = reading.sources.seen(
        path or CONFIG_LOADER[-1], f"{len(found)} architectures choose a config class"
    )
    return Known(found, (look,))


def _table_entry(node: ast.AST) -> str | None:
    match node:
        case ast.Subscript(ast.Name(id=name), ast.Constant(str() as model_type)) if name == TABLE:
            return model_type
        case _:
            return None


def _literals(reading: Reading, path: str, node: ast.expr) -> tuple[str, ...]:
    """The strings that something is compared with: one, or a list of them (not the keys of a table)."""
    value = reading.graph.constants.value(path, node)
    if isinstance(value, str):
        return (value,)
    return () if isinstance(value, dict) else strings(value) or ()


# -- after transformers


def read_drafts(reading: Reading) -> Fact[Mapping[str, tuple[str, ...]]]:
    """Architecture -> the draft classes it is turned into to predict with its own extra layers."""
    path = reading.first(MODEL_CONFIG)
    found: dict[str, tuple[str, ...]] = {}
    if path is not None and "is_draft_model" in reading.text(path):
        for function in reading.functions(path, r"__init__|_config_draft_model"):
            for rewrite in _rewrites(reading, path, function):
                if rewrite.draft and rewrite.field == "architectures":
                    for name in rewrite.values:
                        found[name] = (*found.get(name, ()), rewrite.architecture)
    look = reading.sources.seen(path or MODEL_CONFIG[-1], f"{len(found)} architectures have a draft class")
    return Known({name: tuple(dict.fromkeys(drafts)) for name, drafts in found.items()}, (look,))


def read_architecture_rewrites(reading: Reading) -> Fact[Mapping[str, str]]:
    """Model type -> the architecture that the engine puts in, whatever the config names."""
    path = reading.first(CONFIG_LOADER)
    found: dict[str, str] = {}
    for node in [] if path is None else reading.tree(path).body:
        for rewrite in _rewrites(reading, path or "", node):
            if rewrite.field == "model_type":
                found.update(dict.fromkeys(rewrite.values, rewrite.architecture))
    look = reading.sources.seen(path or CONFIG_LOADER[-1], f"{len(found)} model types set the architecture")
    return Known(found, (look,))


def _rewrites(reading: Reading, path: str, root: ast.AST, draft: bool = False) -> Iterator[Rewrite]:
    """All rewrites below a node whose own ``if`` decides by literals."""
    for node in ast.iter_child_nodes(root):
        if not isinstance(node, ast.If):
            yield from _rewrites(reading, path, node, draft)
            continue
        inside = draft or _DRAFT in ast.unparse(node.test)
        conditions = [condition for condition in _conditions(node.test) if _field(condition.left)]
        for condition in conditions:
            values = _literals(reading, path, condition.comparators[0])
            # For drafts, what stands under further conditions is one of several choices.
            written = ast.walk(ast.Module(node.body, [])) if inside else iter(node.body)
            for architecture, line in _written(written) if values else ():
                yield Rewrite(_field(condition.left), values, architecture, inside, line)
        if not conditions:
            yield from _rewrites(reading, path, ast.Module(node.body, []), inside)
        yield from _rewrites(reading, path, ast.Module(node.orelse, []), draft)


def _conditions(test: ast.expr) -> list[ast.Compare]:
    """The comparisons that must hold: the test itself or the parts of an ``and``."""
    parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
    return [p for p in parts if isinstance(p, ast.Compare) and isinstance(p.ops[0], ast.Eq | ast.In)]


def _field(node: ast.expr) -> str:
    """The config field that is compared: ``config.model_type``, ``hf_config.architectures[0]``."""
    if isinstance(node, ast.Subscript):
        node = node.value
    name = node.attr if isinstance(node, ast.Attribute) else ""
    return name if name in {"model_type", "architectures"} else ""


def _written(nodes: Iterator[ast.AST]) -> Iterator[tuple[str, int]]:
    """Architectures that these statements write, with their lines."""
    for node in nodes:
        match node:
            case ast.Assign([target], value) if _field(target) == "architectures":
                found = value
            case ast.Expr(ast.Call(ast.Name(name), [_, value])) if name in _SETTERS:
                found = value
            case ast.Expr(
                ast.Call(ast.Attribute(_, "update"), [ast.Dict([ast.Constant("architectures")], [value])])
            ):
                found = value
            case _:
                continue
        if isinstance(found, ast.List) and found.elts:
            found = found.elts[0]
        if isinstance(found, ast.Constant) and isinstance(found.value, str):
            yield found.value, node.lineno
