"""Files of variables, as each of those who read them takes their lines apart.

Sources: compose-go dotenv (compose), docker/cli opts/envfile.go (``--env-file``), systemd.exec(5) EnvironmentFile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from canserve.recipes.variables import Scope, expanded
from canserve.rules.recipes import is_secret

_ASSIGNED = re.compile(r"[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_.-]*)[ \t]*[=:][ \t]*")
_COMMENT = re.compile(r"[ \t]+#")
_SYSTEMD = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*=\s*")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


@dataclass(frozen=True, slots=True)
class Variable:
    """One line of such a file."""

    name: str
    value: str
    line: int
    """Of that file."""


def compose_variables(text: str, scope: Scope, line: int) -> Iterator[Variable]:
    """``.env`` and ``env_file``: quotes may span lines, a later value sees the earlier ones. ``line``: of the recipe."""
    inner = scope.within(scope.variables)
    at, number = 0, 1
    while at < len(text):
        found = _ASSIGNED.match(text, at)
        if found is None:
            at, number = _next_line(text, at), number + 1
            continue
        scope.take(line)
        value, end = _value(text, found.end(), inner, line)
        inner.variables[found[1]] = value
        if is_secret(found[1]):
            inner.secret.add(found[1])
        yield Variable(found[1], value, number)
        stop = _next_line(text, end)
        number += text.count("\n", at, stop)
        at = stop


def docker_variables(text: str, scope: Scope, line: int) -> Iterator[Variable]:
    """``docker run --env-file``: what follows the sign is the value as it is, quotes and all."""
    for number, each in enumerate(text.splitlines(), 1):
        name, equals, value = each.lstrip().partition("=")
        if equals and name and not name.startswith("#"):
            scope.take(line)
            yield Variable(name, value, number)


def systemd_variables(text: str, scope: Scope, line: int) -> Iterator[Variable]:
    """``EnvironmentFile``: quotes as in a shell, nothing is expanded, a backslash at the end goes on."""
    lines = text.split("\n")
    number = 0
    while number < len(lines):
        start, each = number + 1, lines[number]
        number += 1
        if each.lstrip().startswith(("#", ";")):
            continue
        while each.endswith("\\") and number < len(lines):
            each = each[:-1] + lines[number]
            number += 1
        if found := _SYSTEMD.match(each):
            scope.take(line)
            yield Variable(found[1], _unquoted(each[found.end() :].rstrip()), start)


def _next_line(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end + 1


def _value(text: str, at: int, scope: Scope, line: int) -> tuple[str, int]:
    """A value as compose takes it, and where it ends."""
    quote = text[at : at + 1]
    if quote in ("'", '"') and (end := _closing(text, at + 1, quote)) is not None:
        inner = text[at + 1 : end]
        if quote == "'":
            return inner, end + 1
        plain = re.sub(r'\\([ntr"\\])', lambda found: _ESCAPES.get(found[1], found[1]), inner)
        return expanded(plain, line, scope), end + 1
    end = text.find("\n", at)
    whole = text[at : len(text) if end < 0 else end]
    plain = "" if whole.startswith("#") else _COMMENT.split(whole)[0].strip()
    return expanded(plain, line, scope), at + len(whole)


def _closing(text: str, at: int, quote: str) -> int | None:
    while (end := text.find(quote, at)) >= 0:
        before = end
        while quote == '"' and before > at and text[before - 1] == "\\":
            before -= 1
        if (end - before) % 2 == 0:
            return end
        at = end + 1
    return None


def _unquoted(text: str) -> str:
    """Quotes and backslashes of a shell, nothing else."""
    found: list[str] = []
    quote, at = "", 0
    while at < len(text):
        sign = text[at]
        if sign == "\\" and quote != "'" and at + 1 < len(text):
            at += 1
            keep = quote == '"' and text[at] not in '"\\`$'
            found.append(("\\" if keep else "") + text[at])
        elif sign == quote:
            quote = ""
        elif not quote and sign in "'\"":
            quote = sign
        else:
            found.append(sign)
        at += 1
    return "".join(found)
