"""Messages a Python source prints or raises: their constant parts, without running any of it.

A message is kept as a template, ``{}`` where a value is filled in, with the level it is said at: ``raise``,
``error``, ``warning`` or ``info``. What is not written as a constant in the call itself, or in one plain
assignment of the same function, is left out: a template that says nothing would match everything.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from canserve.engines.static.parsing import parsed

HOLE = "{}"
_LEVELS = {
    "critical": "error",
    "error": "error",
    "exception": "error",
    "fatal": "error",
    "info": "info",
    "info_once": "info",
    "warn": "warning",
    "warning": "warning",
    "warning_once": "warning",
}
_PERCENT = re.compile(
    r"%(?:\([A-Za-z_]\w{0,40}\))?[-#0 +]{0,4}(?:\d{1,4}|\*)?(?:\.(?:\d{1,4}|\*))?[sdrfgixXeEc]|%%"
)
_BRACES = re.compile(r"\{[^{}]{0,80}\}")
_SPACE = re.compile(r"\s+")
_LOGGERS = re.compile(r"(?i)log(?:ger|ging)?$|^warnings$")
MAX_TEMPLATE = 300


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a source file."""

    level: str
    template: str
    line: int


def messages(text: str) -> tuple[Message, ...]:
    """All messages of one file, in its order; empty where it is no Python that can be parsed."""
    try:
        tree = parsed(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    found: list[Message] = []
    try:
        _walk(tree, {}, found)
    except RecursionError:
        return ()
    return tuple(found)


def _walk(node: ast.AST, known: Mapping[str, str], found: list[Message]) -> None:
    """Follow the statements in order; ``known`` are the names that hold a constant text here."""
    names = dict(known)
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                _assign(names, name, _template(value, names))
            case ast.Raise(exc=ast.Call(args=[first, *_])):
                _add(found, "raise", _template(first, names), child.lineno)
            case _:
                pass
        if isinstance(child, ast.Call) and (level := _level(child)):
            _add(found, level, _template(child.args[0], names, percent=True), child.lineno)
        _walk(child, names, found)


def _assign(names: dict[str, str], name: str, template: str | None) -> None:
    if template is None:
        names.pop(name, None)
    else:
        names[name] = template


def _level(call: ast.Call) -> str | None:
    match call:
        case ast.Call(func=ast.Attribute(value=owner, attr=attr), args=[_, *_]) if attr in _LEVELS:
            name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
            return _LEVELS[attr] if _LOGGERS.search(name) else None
        case _:
            return None


def _add(found: list[Message], level: str, template: str | None, line: int) -> None:
    if template and (said := _SPACE.sub(" ", template).strip()):
        found.append(Message(level, said[:MAX_TEMPLATE], line))


def _template(node: ast.expr, names: Mapping[str, str], percent: bool = False) -> str | None:
    match node:
        case ast.Constant(value=str(text)):
            return _PERCENT.sub(lambda hit: "%" if hit[0] == "%%" else HOLE, text) if percent else text
        case ast.JoinedStr(values=values):
            return "".join(_template(value, names) or HOLE for value in values)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            first, second = _template(left, names, percent), _template(right, names, percent)
            return None if first is None and second is None else (first or HOLE) + (second or HOLE)
        case ast.BinOp(left=left, op=ast.Mod()):
            return _template(left, names, percent=True)
        case ast.Call(func=ast.Attribute(value=owner, attr="format")):
            said = _template(owner, names)
            return _BRACES.sub(HOLE, said) if said else None
        case ast.Name(id=name):
            return names.get(name)
        case _:
            return None


def pieces(template: str) -> Iterator[str]:
    """The constant parts of a template, in order."""
    return (piece for piece in template.split(HOLE) if piece)
