"""Command line flags of ``lmdeploy serve api_server``.

``add_parser_api_server`` adds some itself and calls a method of ``ArgumentHelper`` for each of the others, with
arguments that change defaults and choices. The oldest releases hand a function to python-fire, which takes
whatever it is given.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from canserve.engines.lmdeploy.reading import CLI, Reading
from canserve.engines.static.values import Choices, Value
from canserve.facts import Fact, Known
from canserve.subjects.build import Flag, FlagSyntax, Site

SERVE, HELPERS = CLI
ENTRY = "lmdeploy/cli/cli.py"
SERVER = "add_parser_api_server"
HELPER = "ArgumentHelper"
POLICY = "--quant-policy"
FLEXIBLE = "FlexibleArgumentParser"
ENUMERATIONS = {"QuantPolicy": "lmdeploy/messages.py"}
"""Enumerations whose members are a flag's choices, imported where the flag is declared."""
_SWITCHES = {"store_true", "store_false", "store_const", "count"}


@dataclass(frozen=True, slots=True)
class Declaration:
    """One ``add_argument`` call, and what the names in it stand for."""

    path: str
    call: ast.Call
    names: Mapping[str, ast.expr]


def read_flags(reading: Reading) -> Fact[Mapping[str, Flag]]:
    """All flags by their first long name."""
    if reading.flags is not None:
        return reading.flags
    found = {flag.name: flag for one in declarations(reading) if (flag := _flag(reading, one)) is not None}
    if not found:
        raise reading.unknown(SERVE, f"{SERVER} declares no flag")
    reading.flags = Known(found, (reading.sources.seen(SERVE, f"{SERVER}: {len(found)} flags"),))
    return reading.flags


def one_flag(reading: Reading, name: str) -> Flag | None:
    """One flag; None: it is not declared."""
    flags = read_flags(reading)
    return flags.value.get(name) if isinstance(flags, Known) else None


def declarations(reading: Reading) -> list[Declaration]:
    """Every ``add_argument`` of the server, its helpers' included."""
    function = reading.function(SERVE, SERVER) if reading.has(SERVE) else None
    if function is None:
        raise _without_parser(reading)
    helpers = _methods(reading)
    found: list[Declaration] = []
    for call in _calls(function):
        match call.func:
            case ast.Attribute(_, "add_argument"):
                found.append(Declaration(SERVE, call, {}))
            case ast.Attribute(ast.Name(owner), name) if owner == HELPER:
                if name not in helpers:
                    raise reading.unknown(HELPERS, f"no {HELPER}.{name}")
                found += _declared(helpers[name], call)
            case _:
                pass
    return found


def _without_parser(reading: Reading) -> Exception:
    if any("import fire" in reading.text(path) for path in (ENTRY, "lmdeploy/serve/openai/api_server.py")):
        why = "its server takes its arguments through python-fire, which refuses none"
        return reading.unavailable(why, "start it once with these flags", SERVE)
    return reading.unknown(SERVE, f"no {SERVER}")


def _methods(reading: Reading) -> dict[str, ast.FunctionDef]:
    """The methods of ``ArgumentHelper``."""
    for node in reading.tree(HELPERS).body:
        if isinstance(node, ast.ClassDef) and node.name == HELPER:
            return {method.name: method for method in node.body if isinstance(method, ast.FunctionDef)}
    return {}


def _calls(function: ast.FunctionDef) -> Iterator[ast.Call]:
    """Calls in the order of the text, since the last declaration of a name counts."""
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    yield from sorted(calls, key=lambda node: (node.lineno, node.col_offset))


def _declared(method: ast.FunctionDef, call: ast.Call) -> Iterator[Declaration]:
    """The declarations of a helper, with its parameters as this call gives them."""
    args = method.args
    names = dict(zip([arg.arg for arg in reversed(args.args)], reversed(args.defaults), strict=False))
    names.update(zip([arg.arg for arg in args.args], call.args, strict=False))
    names.update({keyword.arg: keyword.value for keyword in call.keywords if keyword.arg})
    for inner in _calls(method):
        if isinstance(inner.func, ast.Attribute) and inner.func.attr == "add_argument":
            yield Declaration(HELPERS, inner, names)


def _flag(reading: Reading, one: Declaration) -> Flag | None:
    """The flag; None for a positional argument."""
    options = [a.value for a in one.call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    names = [name for name in options if name.startswith("-")]
    if not names:
        return None
    names.sort(key=lambda name: not name.startswith("--"))
    given = {keyword.arg: keyword.value for keyword in one.call.keywords if keyword.arg}
    at = Site(one.path, one.call.lineno)
    choices = _choices(reading, one, given.get("choices"))
    if names[0] == POLICY and isinstance(given.get("type"), ast.Name) and choices is None:
        choices = _policies(reading)
    return Flag(names[0], choices, at, tuple(names[1:]), _kind(given))


def _policies(reading: Reading) -> tuple[str, ...] | None:
    """Newer releases read ``--quant-policy`` by a function of their own: names and numbers of QuantPolicy."""
    members = enumeration(reading, "QuantPolicy") if "_aliases" in reading.text(HELPERS) else None
    if members is None:
        return None
    more = ("fp8_e4m3",) if "_aliases['fp8_e4m3']" in reading.text(HELPERS) else ()
    return (*(name.lower() for name in members), *more, *map(str, members.values()))


def _kind(given: Mapping[str, ast.expr]) -> str:
    match given.get("action"):
        case ast.Constant(action) if action in _SWITCHES:
            return "switch"
        case ast.Attribute(_, "BooleanOptionalAction"):
            return "pair"
        case _:
            pass
    match given.get("nargs"):
        case ast.Constant("+" | "*" | int()):
            return "values"
        case _:
            pass
    match given.get("type"):
        case ast.Attribute(ast.Name("json"), "loads"):
            return "json"
        case _:
            return "value"


def _choices(reading: Reading, one: Declaration, node: ast.expr | None) -> tuple[str, ...] | None:
    """Allowed values as they are typed; None: free, or put together at run time."""
    if isinstance(node, ast.Name):
        node = one.names.get(node.id, node)
    match node:
        case None:
            return None
        case ast.Call(ast.Name("list"), [ast.Name(name)]) if name in ENUMERATIONS:
            members = enumeration(reading, name)
            return None if members is None else tuple(str(value) for value in members.values())
        case _:
            return _typed(reading.graph.constants.value(one.path, node))


def _typed(value: Value) -> tuple[str, ...] | None:
    if isinstance(value, Choices):
        value = value.values
    if not isinstance(value, list | tuple) or not all(isinstance(one, str | int | None) for one in value):
        return None
    return tuple(str(one) for one in value if one is not None)


def enumeration(reading: Reading, name: str) -> dict[str, int] | None:
    """Members of an enumeration of the engine and their numbers; None: the build has none of that name."""
    path = ENUMERATIONS[name]
    for node in reading.tree(path).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            found = dict(_members(node))
            if not found:
                raise reading.unknown(path, f"{name} has no members")
            return found
    return None


def _members(node: ast.ClassDef) -> Iterator[tuple[str, int]]:
    for statement in node.body:
        match statement:
            case ast.Assign([ast.Name(name)], ast.Constant(int() as value)):
                yield name, value
            case _:
                pass


def read_flag_syntax(reading: Reading) -> Fact[FlagSyntax]:
    """Plain argparse; newer releases have a parser of their own, which is vLLM's."""
    if not reading.has(SERVE) or reading.function(SERVE, SERVER) is None:
        raise _without_parser(reading)
    text = reading.text(ENTRY)
    for number, line in enumerate(text.splitlines(), 1):
        if f"= {FLEXIBLE}(" in line:
            dotted = "create_nested_dict" in reading.text(HELPERS)
            at = Site(ENTRY, number)
            return Known(FlagSyntax(True, dotted, at), (reading.seen(at, FLEXIBLE),))
    if "ArgumentParser(" not in text:
        raise reading.unknown(ENTRY, "no argument parser")
    at = Site(ENTRY, 1)
    return Known(FlagSyntax(False, False, at), (reading.seen(at, "plain argparse"),))
