"""Flags of trtllm-serve: options of its command ``serve``, as click's decorators declare them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from canserve.engines.tensorrt_llm.reading import SERVE, Reading, texts
from canserve.engines.tensorrt_llm.serving import reasoning_names, tool_names
from canserve.facts import Fact
from canserve.subjects.build import Flag, FlagSyntax, Site

COMMAND = "serve"
OPTION = "option"
CHOICES = ("Choice", "ChoiceWithAlias")
FACTORIES = {"ReasoningParserFactory": reasoning_names, "ToolParserFactory": tool_names}
"""Choices that are the names of parsers."""


def read_flags(reading: Reading) -> Fact[Mapping[str, Flag]]:
    """Every flag of the command that starts a server."""
    command = _command(reading)
    flags = {flag.name: flag for flag in _options(reading, command)}
    if not flags:
        raise reading.unknown(SERVE, f"no options of the command {COMMAND}")
    return reading.known(flags, f"{len(flags)} flags of trtllm-serve", Site(SERVE, command.lineno))


def read_flag_syntax(reading: Reading) -> Fact[FlagSyntax]:
    """Click takes names whole and as they are written."""
    at = Site(SERVE, _command(reading).lineno)
    return reading.known(FlagSyntax(False, False, at, abbreviations=False), "options of click", at)


def _command(reading: Reading) -> ast.FunctionDef:
    if reading.has(SERVE):
        for node in reading.tree(SERVE).body:
            if isinstance(node, ast.FunctionDef) and node.name == COMMAND and node.decorator_list:
                return node
    raise reading.unknown(SERVE, f"no command {COMMAND}")


def _options(reading: Reading, command: ast.FunctionDef) -> Iterator[Flag]:
    for decorator in command.decorator_list:
        match decorator:
            case ast.Call(func=ast.Attribute(attr=attr), args=args, keywords=words) if attr == OPTION:
                given = {word.arg: word.value for word in words}
                names = [
                    name.strip() for text in texts(args) for name in text.split("/") if name.startswith("-")
                ]
                if names:
                    main = next((name for name in names if name.startswith("--")), names[0])
                    aliases = tuple(name for name in names if name != main)
                    choices = _choices(reading, given.get("type"))
                    yield Flag(main, choices, Site(SERVE, decorator.lineno), aliases, _kind(given, args))
            case _:
                pass


def _kind(given: Mapping[str | None, ast.expr], names: list[ast.expr]) -> str:
    match given.get("is_flag"):
        case ast.Constant(value=True):
            return "switch"
        case _:
            return "switch" if any("/" in text for text in texts(names)) else "value"


def _choices(reading: Reading, kind: ast.expr | None) -> tuple[str, ...] | None:
    """The values that a choice lists; None: free, or not written as a list."""
    match kind:
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(name), args=[first, *rest]) if name in CHOICES:
            pass
        case _:
            return None
    listed: list[str] = []
    match first:
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            listed = texts(elements)
            if len(listed) < len(elements):
                return None
        case _:
            said = ast.unparse(first)
            found = [names(reading) for factory, names in FACTORIES.items() if f"{factory}." in said]
            if len(found) != 1:
                return None
            listed = [*texts(first.elts if isinstance(first, ast.List) else []), *found[0]]
    for one in rest:
        if isinstance(one, ast.Dict):
            listed += texts(one.keys)
    return tuple(dict.fromkeys(listed))
