"""Command line flags of the server, in both ways SGLang declares them.

``parser.add_argument("--x", ...)`` throughout, and since the arguments moved into the fields of a
dataclass ``x: A[type, Arg(...)]``, from which the flags are derived: in ``server_args.py`` at first, in one
file a group of fields later.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from canserve.engines.sglang.places import ARG_CHOICES, ARG_FIELDS, SERVER_ARGS
from canserve.engines.sglang.reading import Reading
from canserve.engines.sglang.snippets import expression_at, line_of
from canserve.engines.static.values import Choices, strings
from canserve.facts import Fact, Known
from canserve.subjects.build import Flag, FlagSyntax, Site

_SWITCHES = {"store_true", "store_false", "store_const", "count"}
_ACTIONS = {
    "BooleanOptionalAction": "pair",
    "DeprecatedAction": "switch",
    "DeprecatedStoreTrueAction": "switch",
    "DeprecatedStoreConstAction": "switch",
}
_PLAIN = (ast.List, ast.Tuple, ast.Set)


@dataclass(frozen=True, slots=True)
class Declaration:
    """One declaration as it stands: option strings, what argparse is told, and where."""

    names: tuple[str, ...]
    keywords: Mapping[str, ast.expr]
    kind: ast.expr | None
    """The field's type, in the newer form."""
    at: Site


def read_flags(reading: Reading) -> Fact[Mapping[str, Flag]]:
    """All flags by their first name."""
    paths = _files(reading)
    reading.sources.prefetch(paths)
    found: dict[str, Flag] = {}
    for path in paths:
        for declaration in _declared(path, reading.tree(path)):
            if (flag := _flag(reading, declaration)) is not None:
                found.setdefault(flag.name, flag)
    if not found:
        raise reading.unknown(SERVER_ARGS, "no flag is declared")
    return Known(found, (reading.sources.seen(SERVER_ARGS, f"{len(found)} flags"),))


def read_flag_syntax(reading: Reading) -> Fact[FlagSyntax]:
    """Names are read by plain argparse in every release; a parser class of its own would be a new form."""
    text = reading.text(SERVER_ARGS)
    if re.search(r"class \w+\((?:argparse\.)?ArgumentParser\)", text):
        raise reading.unknown(SERVER_ARGS, "an argument parser of its own")
    at = Site(SERVER_ARGS, 1)
    return Known(FlagSyntax(False, False, at), (reading.seen(at, "plain argparse"),))


def one_flag(reading: Reading, name: str) -> Flag | None:
    """One flag, cut out of the files without parsing them; None: it is not declared."""
    field = re.compile(rf"^    {name[2:].replace('-', '_')}: (?=A\[)", re.MULTILINE)
    option = re.compile(rf"add_argument\(\s*(?:[\"'][\w-]+[\"'],\s*)*[\"']{re.escape(name)}[\"']")
    for path in _files(reading):
        text = reading.text(path)
        if match := option.search(text):
            node = expression_at(text, match.start())
            declaration = _of_call(path, node) if isinstance(node, ast.Call) else None
        elif match := field.search(text):
            node = expression_at(text, match.end())
            declaration = None if node is None else _of_field(path, name[2:].replace("-", "_"), node)
        else:
            continue
        if declaration is None:
            raise reading.unknown(path, f"the declaration of {name}")
        at = Site(path, line_of(text, match.start()))
        return _flag(reading, Declaration(declaration.names, declaration.keywords, declaration.kind, at))
    return None


def _files(reading: Reading) -> list[str]:
    if reading.first((SERVER_ARGS,)) is None:
        raise reading.unknown(SERVER_ARGS, "no such file")
    return [SERVER_ARGS, *reading.direct(ARG_FIELDS)]


# -- declarations


def _declared(path: str, tree: ast.Module) -> Iterator[Declaration]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(ast.Attribute(_, "add_argument")):
                if (declaration := _of_call(path, node)) is not None:
                    yield declaration
            case ast.ClassDef(body=body):
                for field in body:
                    match field:
                        case ast.AnnAssign(ast.Name(name), annotation):
                            if (declaration := _of_field(path, name, annotation)) is not None:
                                yield declaration
                        case _:
                            pass
            case _:
                pass


def _of_call(path: str, node: ast.Call) -> Declaration | None:
    """``parser.add_argument("--name", "-n", ...)``; None for positional arguments."""
    names = tuple(a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str))
    keywords = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
    if not names or not names[0].startswith("-"):
        return None
    return Declaration(_longest_first(names), keywords, None, Site(path, node.lineno))


def _longest_first(names: tuple[str, ...]) -> tuple[str, ...]:
    """A flag's own name is its first long one."""
    long = tuple(name for name in names if name.startswith("--"))
    return long + tuple(name for name in names if name not in long)


def _of_field(path: str, name: str, annotation: ast.expr) -> Declaration | None:
    """``name: A[type, "help"]`` or ``A[type, Arg(...)]``; None for fields without a flag."""
    match annotation:
        case ast.Subscript(ast.Name("A" | "Annotated"), ast.Tuple([kind, *details])):
            pass
        case _:
            return None
    keywords: dict[str, ast.expr] = {}
    described = False
    for detail in details:
        match detail:
            case ast.Call(ast.Name("Arg"), keywords=given):
                keywords.update({keyword.arg: keyword.value for keyword in given if keyword.arg})
                described = True
            case ast.Constant(str()) | ast.JoinedStr() | ast.BinOp():
                described = True
            case _:
                pass
    if not described or _is_true(keywords.get("no_cli")):
        return None
    own = keywords.get("cli_name")
    first = own.value if isinstance(own, ast.Constant) and isinstance(own.value, str) else _option(name)
    aliases = keywords.get("aliases")
    more = strings([n.value for n in ast.walk(aliases) if isinstance(n, ast.Constant)] if aliases else [])
    if isinstance(extra := keywords.get("action_kwargs"), ast.Dict):
        for key, value in zip(extra.keys, extra.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                keywords[key.value] = value
    return Declaration((first, *(more or ())), keywords, kind, Site(path, annotation.lineno))


def _option(field: str) -> str:
    return "--" + field.replace("_", "-")


def _is_true(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


# -- what they mean


def _flag(reading: Reading, declared: Declaration) -> Flag | None:
    """The flag; None when argparse is told to refuse it (a flag that was taken away)."""
    if "error_message" in declared.keywords:
        return None
    return Flag(
        name=declared.names[0],
        choices=_choices(reading, declared),
        at=declared.at,
        aliases=declared.names[1:],
        kind=_kind(declared),
    )


def _kind(declared: Declaration) -> str:
    action = declared.keywords.get("action")
    if isinstance(action, ast.Constant):
        return "switch" if action.value in _SWITCHES else "value"
    nargs = declared.keywords.get("nargs")
    counted = isinstance(nargs, ast.Constant) and (nargs.value in ("+", "*") or isinstance(nargs.value, int))
    if counted and isinstance(nargs, ast.Constant):
        return "switch" if nargs.value == 0 else "values"
    if action is not None:
        name = action.attr if isinstance(action, ast.Attribute) else getattr(action, "id", "")
        return "value" if "nargs" in declared.keywords else _ACTIONS.get(name, "value")
    inner = "" if declared.kind is None else re.sub(r"^Optional\[(.*)\]$", r"\1", ast.unparse(declared.kind))
    inner = inner.removesuffix(" | None")
    if inner == "bool":
        return "switch"
    listed = inner.lower().startswith("list[") and "type_parser" not in declared.keywords
    return "values" if listed else "value"


def _choices(reading: Reading, declared: Declaration) -> tuple[str, ...] | None:
    node = declared.keywords.get("choices")
    if node is not None:
        return _listed(reading, declared.at.file, node)
    for part in ast.walk(declared.kind) if declared.kind is not None else ():
        if isinstance(part, ast.Subscript) and ast.unparse(part.value).endswith("Literal"):
            value = reading.graph.constants.value(declared.at.file, part)
            return value.strings() if isinstance(value, Choices) else None
    return None


def _listed(reading: Reading, path: str, node: ast.expr) -> tuple[str, ...] | None:
    """The strings of a list, written there or under a name; None when it is put together at run time."""
    if isinstance(node, ast.Name):
        for place in (path, ARG_CHOICES, SERVER_ARGS):
            text = reading.text(place) if reading.sources.has(place) else ""
            if match := re.search(rf"^[ \t]*{node.id}\b[^=\n]*= *(?=[\[({{])", text, re.MULTILINE):
                found = expression_at(text, match.end())
                node = node if found is None else found
                break
    if isinstance(node, _PLAIN) and all(isinstance(part, ast.Constant) for part in node.elts):
        return tuple(p.value for p in node.elts if isinstance(p, ast.Constant) and isinstance(p.value, str))
    found_value = reading.graph.constants.value(path, node)
    return _all_strings(found_value)


def _all_strings(value: object) -> tuple[str, ...] | None:
    """Strings, if all of it is known."""
    if not isinstance(value, list | tuple | set | frozenset):
        return None
    found = strings(value)
    return found if found is not None and len(found) == len(value) else None
