"""Which GGUF files transformers loads itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from canserve.engines.sources import Sources
from canserve.engines.static.evaluate import Constants
from canserve.engines.static.values import CallValue, Table, strings
from canserve.facts import Fact, Known, Missing

LOADER = "transformers/modeling_gguf_pytorch_utils.py"
TABLES = "transformers/integrations/"
NATIVE = "GGUF_CONFIG_ARCHS"
"""The newer table of architectures that are read without the loader's long list."""
_NOT_ARCHITECTURES = {"general", "tokenizer"}


def gguf_architectures(constants: Constants) -> Fact[frozenset[str]]:
    """Values of ``general.architecture`` that the GGUF loader accepts; none where there is no loader."""
    loader = constants.of(LOADER)
    if isinstance(loader, Missing):
        return loader
    if loader.value is None:
        return Known(frozenset(), loader.evidence)
    listed = loader.value.get("GGUF_SUPPORTED_ARCHITECTURES")
    names = strings(listed) or _keys(constants, _table_named_in(listed))
    if not names:
        return constants.sources.unreadable(LOADER, "unknown form: no list of GGUF architectures")
    renamed = {old for old, new in _renamed(constants.sources) if new in names}
    found = frozenset({*names, *renamed, *_keys(constants, NATIVE)} - _NOT_ARCHITECTURES)
    return Known(found, (constants.sources.seen(LOADER, f"{len(found)} GGUF architectures"),))


def _renamed(sources: Sources) -> Iterator[tuple[str, str]]:
    """``if "qwen3moe" in architecture: updated_architecture = "qwen3_moe"`` -> that pair."""
    tree = sources.tree(LOADER)
    nodes = ast.walk(tree.value) if isinstance(tree, Known) and tree.value is not None else ()
    for node in nodes:
        if isinstance(node, ast.If):
            new = [name for statement in node.body for name in _assigned(statement)]
            for part in ast.walk(node.test):
                match part:
                    case ast.Compare(ast.Constant(str() as old), [ast.In()], [ast.Name("architecture")]):
                        yield from ((old, name) for name in new)
                    case _:
                        pass


def _assigned(statement: ast.stmt) -> Iterator[str]:
    for node in ast.walk(statement):
        match node:
            case ast.Assign([ast.Name("updated_architecture")], ast.Constant(str() as name)):
                yield name
            case _:
                pass


def _table_named_in(listed: object) -> str:
    """``list(TABLE.keys())``, where the table comes through a lazy package -> ``TABLE``."""
    match listed:
        case CallValue("list", (CallValue(func=keys),)) if keys.endswith(".keys"):
            return keys.removesuffix(".keys")
        case _:
            return ""


def _keys(constants: Constants, name: str) -> tuple[str, ...]:
    """Keys of the table of that name in the GGUF files of the integrations."""
    for path in constants.sources.under(TABLES) if name else ():
        if not path.rsplit("/", 1)[-1].startswith(("ggml", "gguf")):
            continue
        names = constants.of(path)
        table = names.value.get(name) if isinstance(names, Known) and names.value is not None else None
        if isinstance(table, Table):
            return strings(table) or ()
    return ()
