"""Reasoning and tool parsers by name.

Newest form first: a table of names and modules in the package's ``__init__``; a decorator
``@ToolParserManager.register_module("name")`` on each class; choices of ``--tool-call-parser``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from canserve.engines.static.parsing import parsed
from canserve.engines.static.values import Table, strings
from canserve.engines.vllm.reading import Reading
from canserve.facts import Fact, Missing
from canserve.subjects.build import Site


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of parser: where its names have stood."""

    packages: tuple[str, ...]
    table: str
    manager: str
    flag: str


REASONING = Kind(
    ("vllm/reasoning/", "vllm/entrypoints/openai/reasoning_parsers/"),
    "_REASONING_PARSERS_TO_REGISTER",
    "ReasoningParserManager",
    "--reasoning-parser",
)
TOOLS = Kind(
    ("vllm/tool_parsers/", "vllm/entrypoints/openai/tool_parsers/"),
    "_TOOL_PARSERS_TO_REGISTER",
    "ToolParserManager",
    "--tool-call-parser",
)
FLAGS = "vllm/entrypoints/openai/cli_args.py"


def parser_files(reading: Reading, kind: Kind) -> list[str]:
    """The ``__init__`` files in which a table of names may stand, those that are there."""
    paths = [f"{package}__init__.py" for package in kind.packages]
    return [path for path in paths if reading.sources.has(path)]


def read_parsers(reading: Reading, kind: Kind) -> Fact[tuple[str, ...]]:
    """The names the build accepts; none where it has no such parsers."""
    for package in kind.packages:
        if (missing := reading.sources.gap(f"{package}__init__.py")) is not None:
            return missing
    for path in parser_files(reading, kind):
        table = reading.excerpts.value(path, kind.table)
        if isinstance(table, Missing):
            return table
        if isinstance(table, Table):
            names = strings(table) or ()
            if table.opaque or not names:
                return reading.unknown_form(path, f"{kind.table} cannot be evaluated")
            return reading.known(tuple(sorted(names)), f"{kind.table}: {len(names)} names", path)
    return _decorated(reading, kind)


def _decorated(reading: Reading, kind: Kind) -> Fact[tuple[str, ...]]:
    files = [path for package in kind.packages for path in reading.sources.under(package)]
    reading.sources.prefetch(files)
    names: dict[str, Site] = {}
    for path in files:
        text = reading.excerpts.text(path)
        if isinstance(text, Missing):
            return text
        for name, line in _registered(text or "", kind.manager):
            names.setdefault(name, Site(path, line))
    if names:
        places = tuple(dict.fromkeys(names.values()))
        return reading.known(tuple(sorted(names)), f"registered with {kind.manager}", *places)
    return _choices(reading, kind)


def _registered(text: str, manager: str) -> Iterator[tuple[str, int]]:
    """Names given to the manager's decorator; without a name the class's own counts."""
    for match in re.finditer(rf"^@{manager}\.register_module\(", text, re.MULTILINE):
        end = text.find("\nclass ", match.start())
        chunk = text[match.start() : end if end >= 0 else match.start() + 2000]
        line = text.count("\n", 0, match.start()) + 1
        owner = re.match(r"\nclass (\w+)", text[end:]) if end >= 0 else None
        given = list(_strings(chunk, owner[1] if owner else "Owner"))
        for name in given or ([owner[1]] if owner else []):
            yield name, line


def _strings(decorators: str, owner: str) -> Iterator[str]:
    try:
        node = parsed(f"{decorators}\nclass {owner}: ...").body[0]
    except (SyntaxError, ValueError, RecursionError, MemoryError, IndexError):
        return
    if isinstance(node, ast.ClassDef):
        for part in ast.walk(node.decorator_list[0]):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                yield part.value


def _choices(reading: Reading, kind: Kind) -> Fact[tuple[str, ...]]:
    """Choices of the flag, in releases that had no manager yet."""
    for quote in ('"', "'"):
        for call in reading.excerpts.calls(FLAGS, "add_argument", f"{quote}{kind.flag}{quote}"):
            for keyword in call.keywords:
                if keyword.arg == "choices":
                    names = strings(reading.excerpts.evaluate(FLAGS, keyword.value))
                    if names:
                        return reading.known(names, f"choices of {kind.flag}", Site(FLAGS, call.lineno))
    if (missing := reading.sources.gap(FLAGS)) is not None:
        return missing
    return reading.known((), f"no {kind.manager}", *(parser_files(reading, kind) or [FLAGS]))
