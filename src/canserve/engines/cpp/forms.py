"""Forms in which C++ sources list things: initializers, enums, functions and what is compared in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from canserve.engines.cpp.text import Code

MAX_FOUND = 20_000
"""Rows, enumerators or cases that are taken from one source; the longest list measured had 500."""

_ENUMERATOR = re.compile(r"(\w+)\s*(?:=\s*([^,{}]+?)\s*)?(?:,|$)")
_NAME = r"[A-Za-z_]\w*"
_PAIR = re.compile(rf"\{{\s*((?:{_NAME}\s*::\s*)*{_NAME})\s*,\s*(?=\")")
_TAIL = r"\s*(?:const|noexcept|override|final|\s)*\{"
_SPLITTING = re.compile(r"[,({\[]")
_CASE = re.compile(rf"\bcase\s+((?:{_NAME}\s*::\s*)*{_NAME})\s*:(?!:)")
_REFUSING = re.compile(r"[\s{]*(?:throw|GGML_ABORT|GGML_ASSERT|abort)\b")
_STATEMENT = re.compile(r"\s*[{;\w]")


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a source, brackets excluded."""

    code: Code
    start: int
    end: int

    def find(self, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
        """Matches within, as many as are taken."""
        for count, match in enumerate(pattern.finditer(self.code.text, self.start, self.end)):
            if count >= MAX_FOUND:
                return
            yield match


@dataclass(frozen=True, slots=True)
class Pair:
    """``{ KEY, "text" }``, or ``KEY = 3`` in an enum."""

    key: str
    """Without the class or namespace it is in."""
    text: str
    line: int


def initializer(code: Code, name: str) -> Span | None:
    """What stands in braces behind ``... NAME = {`` (or ``NAME {``); None: no such variable is set."""
    pattern = re.compile(rf"\b{re.escape(name)}\b\s*(?:\[[^\[\]]*\]\s*)?=?\s*(?=\{{)")
    match = pattern.search(code.text)
    return None if match is None else Span(code, match.end() + 1, code.closing(match.end()))


def pairs(span: Span) -> list[Pair]:
    """Its rows of a name and a text, in order."""
    code = span.code
    return [
        Pair(_last(match[1]), code.string_at(match.end()) or "", code.line(match.start()))
        for match in span.find(_PAIR)
    ]


def enum(code: Code, name: str) -> list[Pair] | None:
    """Members of ``enum NAME {``, with the text of their value where one is written; None: no such enum."""
    pattern = re.compile(rf"\benum\s+(?:class\s+|struct\s+)?{re.escape(name)}\b\s*(?::\s*[\w:]+\s*)?(?=\{{)")
    match = pattern.search(code.text)
    if match is None:
        return None
    span = Span(code, match.end() + 1, code.closing(match.end()))
    members = (m for m in span.find(_ENUMERATOR) if m[1][0].isalpha() or m[1][0] == "_")
    return [Pair(m[1], m[2] or "", code.line(m.start())) for m in members]


def numbered(members: list[Pair]) -> dict[str, tuple[int, int]]:
    """Value and line of every enumerator; without those whose value is an expression, and what follows one."""
    found: dict[str, tuple[int, int]] = {}
    value: int | None = -1
    for member in members:
        if member.text:
            value = _integer(member.text)
        elif value is not None:
            value += 1
        if value is not None:
            found[member.key] = value, member.line
    return found


def functions(code: Code, name: str) -> list[Span]:
    """The bodies of all functions and methods of that name."""
    found: list[Span] = []
    for match in re.finditer(rf"\b{re.escape(name)}\s*(?=\()", code.text):
        if len(found) >= MAX_FOUND:
            break
        end = code.closing(match.end())
        body = re.compile(_TAIL).match(code.text, end + 1)
        if body is not None:
            found.append(Span(code, body.end(), code.closing(body.end() - 1)))
    return found


def cases(span: Span) -> dict[str, int]:
    """Labels of ``case`` in it with their lines; without those that lead to nothing but an error."""
    found: dict[str, int] = {}
    waiting: dict[str, int] = {}
    for match in span.find(_CASE):
        waiting[_last(match[1])] = span.code.line(match.start())
        if _CASE.match(span.code.text, span.code.after(match.end())):
            continue  # falls through to the next label
        if not _REFUSING.match(span.code.text, match.end()):
            found.update(waiting)
        waiting.clear()
    return found


def compared(code: Code, variable: str) -> dict[str, int]:
    """Texts that a variable is compared with by ``==``, each with the line of its first comparison."""
    return compared_in(Span(code, 0, len(code.text)), variable)


def compared_in(span: Span, variable: str) -> dict[str, int]:
    """The same for a part of a source."""
    pattern = re.compile(rf"\b{re.escape(variable)}\s*==\s*(?=\")")
    found: dict[str, int] = {}
    for match in span.find(pattern):
        found.setdefault(span.code.string_at(match.end()) or "", span.code.line(match.start()))
    return found


def strings(span: Span) -> list[tuple[str, int]]:
    """All literals in it with their positions, those that follow each other directly as one."""
    found: list[tuple[str, int]] = []
    at = span.start
    while (at := span.code.text.find('"', at, span.end)) >= 0 and len(found) < MAX_FOUND:
        text, start = span.code.string_at(at), at
        while span.code.strings.get(at) is not None:
            at = span.code.after(span.code.text.index('"', at + 1) + 1)
        if text is None:  # not the beginning of a literal: there is none left to read
            break
        found.append((text, start))
    return found


def arguments(span: Span) -> list[Span]:
    """What stands between brackets, split at its commas."""
    found: list[Span] = []
    code, start, at = span.code, span.start, span.start
    while (match := _SPLITTING.search(code.text, at, span.end)) is not None and len(found) < MAX_FOUND:
        if match[0] == ",":
            found.append(Span(code, start, match.start()))
            start = at = match.end()
        else:
            at = code.closing(match.start()) + 1
    return [*found, Span(code, start, span.end)]


def _last(name: str) -> str:
    return name.rpartition("::")[2].strip()


def _integer(text: str) -> int | None:
    try:
        return int(text.rstrip("uUlL"), 0)
    except ValueError:
        return None
