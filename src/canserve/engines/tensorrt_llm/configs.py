"""Configs that the engine reads with classes or code of its own instead of transformers'."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from canserve.engines.tensorrt_llm.reading import CONFIGS, TOP, Reading, assigned, compared, texts
from canserve.facts import Fact
from canserve.subjects.build import ConfigShim, Site

ADDED = f"{TOP}/_torch/configs/__init__.py"
"""Where transformers' table gets what it lacks."""
TABLE = "_CONFIG_REGISTRY"
REGISTER = "register"
LOADER = "load_pretrained_config"
MODEL_TYPE = "model_type"


def read_shims(reading: Reading) -> Fact[Mapping[str, ConfigShim]]:
    """``_CONFIG_REGISTRY``: a dictionary, or a call that makes one of its keywords."""
    shims = {kind: ConfigShim(kind, name, Site(ADDED, line)) for kind, name, line in _added(reading)}
    value = assigned(reading.tree(CONFIGS).body, TABLE) if reading.has(CONFIGS) else None
    if value is None:
        return reading.known(shims, f"{len(shims)} configs of its own", Site(CONFIGS, 0))
    rows = dict(_rows(value))
    if not rows:
        raise reading.unknown(CONFIGS, f"{TABLE} is neither a dictionary nor made of keywords")
    shims |= {
        kind: ConfigShim(kind, name, Site(CONFIGS, line), overrides=True)
        for kind, (name, line) in rows.items()
    }
    return reading.known(shims, f"{len(shims)} configs of its own", Site(CONFIGS, value.lineno))


def _added(reading: Reading) -> Iterator[tuple[str, str, int]]:
    """What is added to transformers' own table where that lacks it: a dictionary, a loop over names, one name."""
    for node in ast.walk(reading.tree(ADDED)) if reading.has(ADDED) else ():
        if isinstance(node, ast.FunctionDef) and f".{REGISTER}(" in ast.unparse(node):
            for part in ast.walk(node):
                yield from _added_by(part)


def _added_by(part: ast.AST) -> Iterator[tuple[str, str, int]]:
    match part:
        case ast.Dict(keys=keys, values=values):
            pairs = zip(texts(keys), values, strict=False)
            yield from ((kind, one.id, one.lineno) for kind, one in pairs if isinstance(one, ast.Name))
        case ast.For(target=ast.Name(), iter=ast.Tuple(elts=elements) | ast.List(elts=elements)):
            name = next((name for inner in ast.walk(part) for _, name in _registered(inner)), "")
            yield from ((kind, name, part.lineno) for kind in texts(elements))
        case ast.Call():
            yield from ((kind, name, part.lineno) for kind, name in _registered(part) if kind)
        case _:
            pass


def _registered(part: ast.AST) -> Iterator[tuple[str, str]]:
    """Model type (empty: not a literal) and class of ``X.register(type, Class, ...)``."""
    match part:
        case ast.Call(func=ast.Attribute(attr=attr), args=[kind, ast.Name(name), *_]) if attr == REGISTER:
            yield next(iter(texts([kind])), ""), name
        case _:
            pass


def _rows(value: ast.expr) -> Iterator[tuple[str, tuple[str, int]]]:
    pairs: list[tuple[str | None, ast.expr]] = []
    match value:
        case ast.Call(keywords=words):
            pairs = [(word.arg, word.value) for word in words]
        case ast.Dict(keys=keys, values=values):
            pairs = [(next(iter(texts([key])), None), one) for key, one in zip(keys, values, strict=True)]
        case _:
            pass
    for kind, one in pairs:
        name = texts([one]) or ([one.id] if isinstance(one, ast.Name) else [])
        if kind is not None and name:
            yield kind, (name[0], one.lineno)


def read_fixups(reading: Reading) -> Fact[Mapping[str, Site]]:
    """Model types for which the loader takes code of its own, whatever else the config says."""
    found: dict[str, Site] = {}
    for node in reading.tree(CONFIGS).body if reading.has(CONFIGS) else ():
        if isinstance(node, ast.FunctionDef) and node.name == LOADER:
            for branch in ast.walk(node):
                for test in _sufficient(branch.test) if isinstance(branch, ast.If) else ():
                    found |= {kind: Site(CONFIGS, line) for kind, line in compared(test, MODEL_TYPE)}
    return reading.known(found, f"{len(found)} model types with code of their own", Site(CONFIGS, 0))


def _sufficient(test: ast.expr) -> Iterator[ast.expr]:
    """Conditions each of which is enough by itself."""
    match test:
        case ast.BoolOp(op=ast.Or(), values=values):
            for value in values:
                yield from _sufficient(value)
        case ast.Compare():
            yield test
        case _:
            pass
