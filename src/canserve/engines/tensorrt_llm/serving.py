"""What a server can be told: parsers, types of the KV cache, forms of weights, how ranks are started."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from canserve.engines.tensorrt_llm.reading import (
    LOADERS,
    MISTRAL,
    MPI,
    RAY,
    REASONING,
    TOOLS,
    Reading,
    assigned,
    decorations,
    texts,
)
from canserve.facts import Fact
from canserve.subjects.build import Site

FACTORIES = {REASONING: "ReasoningParserFactory", TOOLS: "ToolParserFactory"}
TABLES = ("parsers", "_parsers")
DECORATORS = {REASONING: "register_reasoning_parser", TOOLS: "register_tool_parser"}
ENDINGS = {".safetensors": "safetensors", ".bin": "pt", ".pth": "pt", ".pt": "pt"}
DEFAULT = "auto"


def read_reasoning(reading: Reading) -> Fact[tuple[str, ...]]:
    """Names of reasoning parsers; none before reasoning was told apart."""
    return _parsers(reading, REASONING)


def read_tools(reading: Reading) -> Fact[tuple[str, ...]]:
    """Names of tool call parsers."""
    return _parsers(reading, TOOLS)


def _parsers(reading: Reading, path: str) -> Fact[tuple[str, ...]]:
    names = tuple(_names(reading, path))
    if not names and reading.has(path):
        raise reading.unknown(
            path, f"{FACTORIES[path]} neither has a table nor do classes register themselves"
        )
    return reading.known(names, f"{len(names)} parsers", Site(path, 0))


def reasoning_names(reading: Reading) -> list[str]:
    """The same for the flag that chooses one."""
    return list(_names(reading, REASONING))


def tool_names(reading: Reading) -> list[str]:
    """The same for the flag that chooses one."""
    return list(_names(reading, TOOLS))


def _names(reading: Reading, path: str) -> Iterator[str]:
    if not reading.has(path):
        return
    tree = reading.tree(path)
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == FACTORIES[path]:
            for table in TABLES:
                value = assigned(node.body, table)
                if isinstance(value, ast.Dict):
                    yield from texts(value.keys)
    yield from (name for name, _ in decorations(tree, DECORATORS[path]))


def read_load_formats(reading: Reading) -> Fact[tuple[str, ...]]:
    """Forms of weights, by the endings that the loader of the PyTorch back end looks for."""
    for path in reading.existing(LOADERS):
        said = {
            node.value
            for node in ast.walk(reading.tree(path))
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
        found = [form for ending, form in ENDINGS.items() if any(text.endswith(ending) for text in said)]
        if "safetensors" in found:
            mistral = ["mistral"] if reading.has(MISTRAL) else []
            forms = tuple(dict.fromkeys([DEFAULT, *found, *mistral]))
            return reading.known(forms, ", ".join(forms), Site(path, 0))
    raise reading.unknown(LOADERS[0], "no loader that names the files it looks for")


def read_launchers(reading: Reading) -> Fact[tuple[str, ...]]:
    """``mpi``, and ``ray`` in releases that can do without it."""
    found = [(name, path) for name, path in (("mpi", MPI), ("ray", RAY)) if reading.has(path)]
    if not found:
        raise reading.unknown(MPI, "no way to start several ranks")
    names = tuple(name for name, _ in found)
    return reading.known(names, " and ".join(names), *(Site(path, 0) for _, path in found))
