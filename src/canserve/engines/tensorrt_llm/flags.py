"""Flags of trtllm-serve: options of its command ``serve``, as click's decorators declare them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from canserve.engines.tensorrt_llm.quantization import cache_algorithms
from canserve.engines.tensorrt_llm.reading import MODES, SERVE, Reading, assigned, attempt, texts
from canserve.engines.tensorrt_llm.serving import DEFAULT, reasoning_names, tool_names
from canserve.facts import Fact, Known
from canserve.subjects.build import Flag, FlagSyntax, Site

COMMAND = "serve"
OPTION = "option"
"""How the names of decorators end that declare one: click's own, and wrappers of it."""
WITHOUT_OPTIONS = frozenset({"command", "argument"})
CACHE = "--kv_cache_dtype"
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


def read_cache_types(reading: Reading) -> Fact[tuple[str, ...]]:
    """Choices of the flag; where there is none, ``auto`` and what the cache may be quantized with."""
    flags = attempt(read_flags, reading)
    flag = flags.value.get(CACHE) if isinstance(flags, Known) else None
    if flag is not None and flag.choices is not None:
        return reading.known(flag.choices, ", ".join(flag.choices), flag.at)
    found = cache_algorithms(reading)
    if not found:
        raise reading.unknown(MODES, "no list of what the KV cache may be quantized with")
    return reading.known((DEFAULT, *found), ", ".join(found), Site(MODES, 0))


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
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(name), args=args, keywords=words):
                pass
            case _:
                raise reading.unknown(SERVE, f"{ast.unparse(decorator)[:60]} may add options")
        if name in WITHOUT_OPTIONS:
            continue
        names = [one.strip() for text in texts(args) for one in text.split("/") if one.startswith("-")]
        if not name.endswith(OPTION) or not names:
            raise reading.unknown(SERVE, f"{ast.unparse(decorator)[:60]} may add options")
        given = {word.arg: word.value for word in words}
        main = next((one for one in names if one.startswith("--")), names[0])
        aliases = tuple(one for one in names if one != main)
        choices = _choices(reading, given.get("type"))
        yield Flag(main, choices, Site(SERVE, decorator.lineno), aliases, _kind(given, args))


def _kind(given: Mapping[str | None, ast.expr], names: list[ast.expr]) -> str:
    match given.get("is_flag"):
        case ast.Constant(value=True):
            return "switch"
        case _:
            return "switch" if any("/" in text for text in texts(names)) else "value"


def _choices(reading: Reading, kind: ast.expr | None) -> tuple[str, ...] | None:
    """The values that a choice lists; None: free, or not written where it can be read."""
    match kind:
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(name), args=[first, *rest]) if name in CHOICES:
            pass
        case _:
            return None
    listed = _listed(reading, first)
    if listed is None:
        return None
    for one in rest:
        aliases = _constant(reading, one)
        listed += texts(aliases.keys) if isinstance(aliases, ast.Dict) else []
    return tuple(dict.fromkeys(listed))


def _listed(reading: Reading, given: ast.expr) -> list[str] | None:
    """A list of texts, perhaps joined with the names of a table of parsers."""
    value = _constant(reading, given)
    if isinstance(value, ast.List | ast.Tuple):
        found = texts(value.elts)
        return found if len(found) == len(value.elts) else None
    said = ast.unparse(value)
    tables = [names(reading) for factory, names in FACTORIES.items() if f"{factory}." in said]
    if len(tables) != 1:
        return None
    return [*texts([node for node in ast.walk(value) if isinstance(node, ast.Constant)]), *tables[0]]


def _constant(reading: Reading, given: ast.expr) -> ast.expr:
    """What a name of the same file stands for."""
    if isinstance(given, ast.Name):
        return assigned(reading.tree(SERVE).body, given.id) or given
    return given
