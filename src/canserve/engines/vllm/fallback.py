"""How a build serves an architecture that it does not list: suffix conversion, and the Transformers back end.

The function that decides has stood in three places under three names; what it accepts is read from the
tests that it calls on the transformers class.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from canserve.engines.static.values import Table, Value
from canserve.engines.vllm.reading import Reading
from canserve.engines.vllm.registry import DROPPED, FILES
from canserve.facts import Fact, Missing
from canserve.subjects.build import Fallback, Site

LOADER = "vllm/model_executor/model_loader/utils.py"
CONFIGS = ("vllm/config/model.py", "vllm/config/__init__.py", "vllm/config.py")
DECIDERS = ("_try_resolve_transformers", "resolve_transformers_arch", "resolve_transformers_fallback")
TABLES = ("_TRANSFORMERS_BACKEND_MODELS", "_TRANSFORMERS_MODELS", "_FALLBACK_MODEL")
"""Where the wrapper classes are listed."""
TESTS = {
    "is_backend_compatible": "supports_attention_backend",
    "_can_set_attn_implementation": "can_set_attn_implementation",
    "_supports_flex_attn": "supports_flex_attn",
}
"""What the engine asks a transformers class, and what that test is called here."""
DEFAULTS = "_SUFFIX_TO_DEFAULTS"


def read_fallback(reading: Reading) -> Fact[Fallback | None]:
    """The build's fallback; ``Known(None)``: it has none."""
    paths = reading.existing((FILES[0], LOADER))
    if isinstance(paths, Missing):
        return paths
    for path in paths:
        tree = reading.tree(path)
        if isinstance(tree, Missing):
            return tree
        for function in _functions(tree):
            if function.name in DECIDERS:
                return _described(reading, path, tree, function)
    return reading.known(None, "no Transformers back end", *(paths or [FILES[0]]))


def _functions(tree: ast.Module | None) -> Iterator[ast.FunctionDef]:
    """The functions of a module and the methods of its classes."""
    for node in tree.body if tree is not None else ():
        for inner in node.body if isinstance(node, ast.ClassDef) else (node,):
            if isinstance(inner, ast.FunctionDef):
                yield inner


def _described(
    reading: Reading, path: str, tree: ast.Module | None, decider: ast.FunctionDef
) -> Fact[Fallback | None]:
    classes = reading.constant(FILES[:1], next(iter(_listed(reading)), TABLES[0]))
    if isinstance(classes, Missing):
        return classes
    if classes is None or not isinstance(classes[1], Table) or not classes[1]:
        return reading.unknown_form(FILES[0], f"{decider.name} is there, but none of {', '.join(TABLES)}")
    suffixes = _suffixes(reading, tree)
    if isinstance(suffixes, Missing):
        return suffixes
    names = sorted(map(str, classes[1]), key=lambda name: not name.endswith("ForCausalLM"))
    accepts = _accepts(tree, decider)
    if not accepts:
        return reading.unknown_form(path, f"{decider.name} calls none of the known tests")
    at = Site(path, decider.lineno)
    fallback = Fallback(
        classes=tuple(names),
        accepts=accepts,
        remote_code=any(isinstance(n, ast.Name) and n.id == "auto_map" for n in ast.walk(decider)),
        multimodal=any("multimodal" in name.lower() for name in names),
        suffixes={suffix: bases[0] for suffix, bases in suffixes.items()},
        refuses_dropped=_refuses_dropped(tree, decider.name),
        at=at,
        bases=tuple(dict.fromkeys(base for bases in suffixes.values() for base in bases)),
    )
    return reading.known(fallback, f"Transformers back end: {', '.join(names)}", at)


def _listed(reading: Reading) -> list[str]:
    names = reading.constants(FILES[0])
    return (
        [] if isinstance(names, Missing) or names is None else [table for table in TABLES if table in names]
    )


def _accepts(tree: ast.Module | None, decider: ast.FunctionDef) -> tuple[str, ...]:
    """The tests that the function asks, itself or through a function of the same file that it calls."""
    called = {node.id for node in ast.walk(decider) if isinstance(node, ast.Name)}
    bodies = [decider, *(f for f in _functions(tree) if f.name in called and f is not decider)]
    asked = {node.attr for body in bodies for node in ast.walk(body) if isinstance(node, ast.Attribute)}
    return tuple(test for attribute, test in TESTS.items() if attribute in asked)


def _refuses_dropped(tree: ast.Module | None, decider: str) -> bool:
    """Whether the function that calls the decider looks into the list of dropped names first."""
    for function in _functions(tree):
        calls = [n.lineno for n in ast.walk(function) if isinstance(n, ast.Call) and _called(n) == decider]
        looks = [n.lineno for n in ast.walk(function) if isinstance(n, ast.Name) and n.id == DROPPED]
        if calls and looks and min(looks) < min(calls):
            return True
    return False


def _called(node: ast.Call) -> str:
    match node.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def _suffixes(reading: Reading, tree: ast.Module | None) -> Mapping[str, tuple[str, ...]] | Missing:
    """Suffix of a pooling architecture -> the suffixes of base architectures that are tried in turn."""
    written: dict[str, tuple[str, ...]] = {}
    for node in (node for function in _functions(tree) for node in ast.walk(function)):
        match node:
            case ast.Name(id="iter_architecture_defaults"):
                return _from_defaults(reading)
            case ast.Call(
                func=ast.Attribute(attr="replace"),
                args=[ast.Constant(value=str() as suffix), ast.Constant(value=str() as base)],
            ) if suffix.startswith("For"):
                written[suffix] = (base,)
            case _:
                pass
    return written


def _from_defaults(reading: Reading) -> dict[str, tuple[str, ...]] | Missing:
    """Rows are ``(suffix, (runner, conversion))``; without conversion a suffix names a base architecture."""
    rows: Value = None
    for path in CONFIGS:
        rows = reading.excerpts.value(path, DEFAULTS) or reading.sources.gap(path)
        if rows is not None:
            break
    if isinstance(rows, Missing):
        return rows
    if not isinstance(rows, list):
        return reading.unknown_form(CONFIGS[0], f"{DEFAULTS} is not a list of suffixes")
    bases: list[str] = []
    converted: list[str] = []
    for row in rows:
        match row:
            case (str() as suffix, (_, "none")):
                bases.append(suffix)
            case (str() as suffix, (_, str())):
                converted.append(suffix)
            case _:
                pass
    return {suffix: tuple(bases) for suffix in converted} if bases else {}
