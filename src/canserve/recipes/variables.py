"""Variables: what a text sets itself, what stands for it, and what is left open."""

from __future__ import annotations

import re
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field

from canserve.recipes.trouble import MAX_GROWN, MAX_NESTED, MAX_OPEN, MAX_WORDS, RecipeError
from canserve.subjects.recipe import Open, Refused

_REFERENCE = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-]))")
_BRACED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*|[0-9])(?:(:?[-=?+])(.*))?", re.DOTALL)
NOTHING = "nothing in the recipe sets it"
_OWN = r'"?\$(?:0|\{0\}|BASH_SOURCE|\{BASH_SOURCE(?:\[0\])?\})"?'
_REAL = rf'(?:{_OWN}|"?\$\((?:readlink -f|realpath) (?:-- )?{_OWN}\)"?)'
_DIRECTORY = rf"(?:dirname (?:-- )?{_REAL})"
_OWN_FOLDER = re.compile(
    rf'\$\(\s*(?:{_DIRECTORY}|cd (?:-- )?"?\$\({_DIRECTORY}\)"?(?: [&>1-2/a-z]+)? ?(?:&&|;) ?pwd(?: -P)?)\s*\)'
)
"""How a script says in which folder it lies: that of the recipe."""
_ARRAY = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\[[@*]\]")


@dataclass(slots=True)
class Scope:
    """Variables whose value is known, and what was left open or refused on the way."""

    variables: MutableMapping[str, str] = field(default_factory=dict)
    arrays: dict[str, list[str]] = field(default_factory=dict)
    open: list[Open] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    runtime: frozenset[str] = frozenset()
    """Variables that the place of execution sets, such as its own address: left as they are."""
    doubtful: set[str] = field(default_factory=set)
    """Variables that are set under a condition."""
    secret: set[str] = field(default_factory=set)
    """Variables that are set, to a value that is not kept."""
    written: dict[str, str] = field(default_factory=dict)
    """Files that a shell's text writes in place, by name."""
    exports: bool = False
    """Whether what a shell's text sets from here on reaches what it starts (``set -a``)."""
    words: int = MAX_WORDS
    grown: list[int] = field(default_factory=lambda: [0])
    """How many characters variables stood for so far; shared with the scopes within."""

    def within(self, variables: Mapping[str, str]) -> Scope:
        """A scope with other variables; what is left open, refused and counted is one."""
        return Scope(
            dict(variables),
            {},
            self.open,
            self.refused,
            self.notes,
            self.runtime,
            self.doubtful,
            self.secret,
            self.written,
            words=self.words,
            grown=self.grown,
        )

    def shift(self) -> None:
        """The first word that a shell's text was given is gone."""
        self.give(self.arrays.get("@", [])[1:])

    def give(self, words: list[str]) -> None:
        """What follows a shell's text: ``$1``, ``$2`` ... and ``$@``."""
        for number in range(1, 10):
            self.variables.pop(str(number), None)
        self.variables.update({str(number): word for number, word in enumerate(words[:9], 1)})
        self.arrays["@"] = words

    def leave(self, what: str, line: int, why: str) -> None:
        """Note once what is left open."""
        name = what.strip("${}").partition("[")[0]
        if name in self.runtime:
            why = "known only where it runs"
        elif name in self.doubtful:
            why = "set under a condition: which value it has is not known"
        elif name in self.secret:
            why = "it is set to a secret, which is not kept"
        elif why == NOTHING and (name in ("@", "*") or name.isdecimal()):
            why = "given to the script when it is started"
        one = Open(what[:200], line, why)
        if not any((each.what, each.line) == (one.what, one.line) for each in self.open):
            self.open.append(one)
        if len(self.open) > MAX_OPEN:
            raise RecipeError(f"more than {MAX_OPEN} values are left open", line)

    def grow(self, count: int, line: int) -> None:
        """Count what a variable stands for. Raises RecipeError beyond the bound."""
        self.grown[0] += count
        if self.grown[0] > MAX_GROWN:
            raise RecipeError(f"variables stand for more than {MAX_GROWN} characters", line)

    def take(self, line: int) -> None:
        """Count a word. Raises RecipeError beyond the bound."""
        self.words -= 1
        if self.words < 0:
            raise RecipeError(f"more than {MAX_WORDS} words", line)


def expanded(text: str, line: int, scope: Scope, depth: int = 0) -> str:
    """A text with ``$X``, ``${X}``, ``${X:-default}`` replaced, as between double quotes."""
    found: list[str] = []
    at = 0
    while at < len(text):
        if text[at] == "$":
            value, at = reference(text, at, line, scope, depth)
            found.append(value)
            continue
        found.append(text[at])
        at += 1
    return "".join(found)


def reference(text: str, at: int, line: int, scope: Scope, depth: int = 0) -> tuple[str, int]:
    """What a ``$`` at a position stands for, and where the text goes on after it. Left open: it stays as written."""
    if text.startswith("${", at):
        end = _closing(text, at + 2, "{", "}")
        if end is None:
            scope.leave(text[at : at + 40], line, "its bracket is never closed")
            return text[at:], len(text)
        return _braced(text[at + 2 : end], line, scope, depth), end + 1
    if text.startswith("$(", at):
        end = _closing(text, at + 2, "(", ")")
        whole = text[at:] if end is None else text[at : end + 1]
        if end is not None and _OWN_FOLDER.fullmatch(whole):
            return ".", end + 1
        scope.leave(whole, line, "a command whose output is not known: nothing is executed")
        return whole, len(text) if end is None else end + 1
    found = _REFERENCE.match(text, at)
    if found is None:
        return "$", at + 1
    name = found[1]
    if name in scope.variables:
        scope.grow(len(scope.variables[name]), line)
        return scope.variables[name], found.end()
    scope.leave(found[0], line, NOTHING)
    return found[0], found.end()


def _braced(inside: str, line: int, scope: Scope, depth: int) -> str:
    whole = f"${{{inside}}}"
    if array := _ARRAY.fullmatch(inside):
        if array[1] in scope.arrays:
            scope.grow(sum(map(len, scope.arrays[array[1]])), line)
            return " ".join(scope.arrays[array[1]])
        scope.leave(whole, line, NOTHING)
        return whole
    found = _BRACED.fullmatch(inside)
    if found is None or depth > MAX_NESTED:
        scope.leave(whole, line, "a form that only a shell can work out")
        return whole
    name, operator, rest = found[1], found[2] or "", found[3] or ""
    value = scope.variables.get(name)
    if operator.endswith("+"):
        return expanded(rest, line, scope, depth + 1) if value else ""
    if value is not None and (value or not operator.startswith(":")):
        scope.grow(len(value), line)
        return value
    if operator in ("-", ":-", "=", ":="):
        value = expanded(rest, line, scope, depth + 1)
        if operator.endswith("="):
            scope.variables[name] = value
        return value
    why = f"has to be set: {rest}" if operator.endswith("?") and rest else NOTHING
    left = f"${{{name}}}"  # without its message, whose blanks would make several words of it
    scope.leave(left, line, why)
    return left


def _closing(text: str, at: int, opens: str, closes: str) -> int | None:
    """Where the bracket that was opened before ``at`` is closed."""
    depth, quote = 1, ""
    while at < len(text):
        sign = text[at]
        if sign == "\\":
            at += 1
        elif quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"":
            quote = sign
        elif sign == opens:
            depth += 1
        elif sign == closes:
            depth -= 1
            if depth == 0:
                return at
        at += 1
    return None
