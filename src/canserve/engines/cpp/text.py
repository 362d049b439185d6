"""C++ source text in which nothing can be mistaken for code: comments, strings and directives are blanked.

``Code.text`` has the same length and lines as the source, so positions stay true; string literals keep their
quotes and lose their content, which ``Code.strings`` holds by position. One pass, linear in the source.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping

MAX_SOURCE = 8 << 20
"""Largest source that is read, in characters; the largest one measured was 1.0 MB."""
MAX_BRACKETS = 1_000_000
"""Of one kind; the largest source measured has 40 000."""

_PARTS = re.compile(
    r"""
      (?P<comment>//(?:[^\n\\]|\\.)*|/\*.*?\*/)
    | (?P<raw>\b(?:u8|u|U|L)?R"(?P<mark>[^\s()\\"]{0,16})\((?P<verbatim>.*?)\)(?P=mark)")
    | "(?P<plain>(?:[^"\\\n]|\\.)*)"
    | (?P<char>(?:(?<![0-9A-Za-z_])|(?<=\bu8)|(?<=\b[uUL]))'(?:[^'\\\n]|\\.)+')
    | (?P<directive>^[ \t]*\#(?://(?:[^\n\\]|\\.)*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|"|[^\n\\/"]|\\.|/(?![*/]))*)
    | (?P<open>/\*|\b(?:u8|u|U|L)?R"[^\s()\\"]{0,16}\(|"|(?<![0-9A-Za-z_])')
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_VISIBLE = re.compile(r"[^\n]+")
_CONDITION = re.compile(r"\s*#\s*(if|ifdef|ifndef|elif|elifdef|elifndef|else|endif)\b\s*(.*)", re.DOTALL)
_DEFINE = re.compile(r"\s*#\s*define\s+(\w+)")
_ESCAPE = re.compile(r"\\(\n|x[0-9A-Fa-f]{1,2}|[0-7]{1,3}|[^\n])")
_SIMPLE = {"\n": "", "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_SPACE = re.compile(r"\s*")
_BRACKETS = {"{": re.compile(r"[{}]"), "(": re.compile(r"[()]"), "[": re.compile(r"[\[\]]")}


class CppError(ValueError):
    """Source text whose strings, comments or brackets do not close, or that is too long."""


class Code:
    """A blanked source.

    ``strings``: the content of each literal by the position of its opening quote; ``macros``: names that a
    ``#define`` gives a meaning, with the first position of one.
    """

    def __init__(self, text: str, strings: Mapping[int, str], macros: Mapping[str, int]) -> None:
        self.text = text
        self.strings = strings
        self.macros = macros
        self._newlines = [match.start() for match in re.finditer("\n", text)]
        self._closing: dict[str, dict[int, int]] = {}

    def line(self, position: int) -> int:
        """The line of a position, counted from 1."""
        return bisect_left(self._newlines, position) + 1

    def string_at(self, position: int) -> str | None:
        """The literal that starts there, joined with those that directly follow it."""
        found: list[str] = []
        while (content := self.strings.get(position)) is not None:
            found.append(content)
            position = self.after(self.text.index('"', position + 1) + 1)
        return "".join(found) if found else None

    def after(self, position: int) -> int:
        """The next position that is not blank."""
        match = _SPACE.match(self.text, position)
        return match.end() if match else position

    def closing(self, position: int) -> int:
        """Where the bracket that opens there closes. Raises CppError."""
        opening = self.text[position]
        if opening not in self._closing:
            self._closing[opening] = self._match(_BRACKETS[opening], opening)
        found = self._closing[opening].get(position)
        if found is None:
            raise CppError(f"line {self.line(position)}: {opening} is never closed")
        return found

    def _match(self, kind: re.Pattern[str], opening: str) -> dict[int, int]:
        """All brackets of a kind, each with the one that closes it."""
        found: dict[int, int] = {}
        waiting: list[int] = []
        for count, match in enumerate(kind.finditer(self.text)):
            if count > MAX_BRACKETS:
                raise CppError(f"more than {MAX_BRACKETS} brackets of one kind")
            if match[0] == opening:
                waiting.append(match.start())
            elif waiting:
                found[waiting.pop()] = match.start()
        return found


def read(source: str) -> Code:
    """Blank a source. Raises CppError."""
    if len(source) > MAX_SOURCE:
        raise CppError(f"{len(source)} characters: more than {MAX_SOURCE} are not read")
    pieces: list[str] = []
    strings: dict[int, str] = {}
    branches = _Branches()
    at = 0
    for match in _PARTS.finditer(source):
        start, end = match.span()
        if match["open"] is not None:
            line = source.count("\n", 0, start) + 1
            raise CppError(f"line {line}: {match['open']} is never closed")
        pieces.append(source[at:start])
        at = end
        content = match["plain"] if match["raw"] is None else match["verbatim"]
        if content is None:
            if match["directive"] is not None:
                branches.directive(match[0], start, end)
            pieces.append(_blank(match[0]))
        else:
            opening = match[0].index('"')
            strings[start + opening] = content if match["raw"] is not None else _unescaped(content)
            pieces.append(" " * opening + '"' + _blank(match[0][opening + 1 : -1]) + '"')
    pieces.append(source[at:])
    return _without(branches, "".join(pieces), strings)


class _Branches:
    """What directives say: names that are defined, and stretches under ``#if 0`` that are never compiled."""

    def __init__(self) -> None:
        self.dead: list[tuple[int, int]] = []
        self.macros: dict[str, int] = {}
        self._open: list[int | None] = []  # of each condition around: where its dead branch began

    def directive(self, text: str, start: int, end: int) -> None:
        """Take note of one directive."""
        if defined := _DEFINE.match(text):
            self.macros.setdefault(defined[1], start)
        match = _CONDITION.match(text)
        if match is None:
            return
        word, rest = match[1], match[2].strip()
        if word in {"if", "ifdef", "ifndef"}:
            self._open.append(end if word == "if" and re.match(r"0\b(?!\s*[|?])", rest) else None)
        elif self._open:
            began = self._open.pop()
            if began is not None:
                self.dead.append((began, start))
            if word != "endif":
                self._open.append(None)


def _without(branches: _Branches, text: str, strings: dict[int, str]) -> Code:
    """The source without what stands in dead branches."""
    pieces: list[str] = []
    at = 0
    for start, end in sorted(branches.dead):
        if start >= at:  # a dead branch inside a dead branch is gone already
            pieces += [text[at:start], _blank(text[start:end])]
            at = end
    pieces.append(text[at:])
    text = "".join(pieces)
    alive = {position: content for position, content in strings.items() if text[position] == '"'}
    return Code(text, alive, branches.macros)


def _blank(text: str) -> str:
    return _VISIBLE.sub(lambda match: " " * len(match[0]), text)


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(_character, text) if "\\" in text else text


def _character(match: re.Match[str]) -> str:
    code = match[1]
    if code[0] == "x" and len(code) > 1:
        return chr(int(code[1:], 16))
    if code[0] in "01234567":
        return chr(int(code, 8))
    return _SIMPLE.get(code, code)
