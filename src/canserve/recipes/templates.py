"""Names in braces, replaced by declared values: ``{port}``, ``{{ port }}``. Anything else stays as it is, by line."""

from __future__ import annotations

import re
from collections.abc import Mapping

from canserve.recipes.variables import Scope
from canserve.subjects.recipe import Refused, Said

_EXECUTES = re.compile(r"[;&|<>`\n]|\$\(")
_SINGLE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_DOUBLE = re.compile(r"\{\{-?\s*([A-Za-z_][A-Za-z0-9_.]*)\s*-?\}\}")
_LOGIC = re.compile(r"\{%[^%]{0,200}%\}|\{\{[^{}]{0,200}\}\}")
ROUNDS = 4
"""Values that hold names of other values."""


def refuse_commands(values: Mapping[str, Said], scope: Scope) -> None:
    """A value that would begin a command of its own where it is put into a shell's text; JSON is quoted there."""
    for name, said in values.items():
        found = _EXECUTES.search(said.value.strip())
        if found is not None and ("'" in said.value or said.value.strip()[:1] not in ("{", "[")):
            sign = found[0] if found[0] != "\n" else "a new line"
            why = f"{name} holds {sign}, which a shell would execute in the command"
            scope.refused.append(Refused(said.value[:200], said.line, why))


def filled(text: str, line: int, values: Mapping[str, str], scope: Scope, doubled: bool = False) -> str:
    """A command's template with its names replaced. ``doubled``: a brace is written twice to stand for itself."""
    if doubled and "{{" in text:
        text = text.replace("{{", "\0").replace("}}", "\1")
    else:
        scope.grow(sum(len(values.get(found[1], "")) for found in _DOUBLE.finditer(text)), line)
        text = _DOUBLE.sub(lambda found: values.get(found[1], found[0]), text)
    for _ in range(ROUNDS):
        grown = sum(len(values.get(found[1], "")) for found in _SINGLE.finditer(text))
        scope.grow(grown, line)
        after = _SINGLE.sub(lambda found: values.get(found[1], found[0]), text)
        if after == text:
            break
        text = after
    text = text.replace("\0", "{").replace("\1", "}")
    for found in (*_SINGLE.finditer(text), *(() if doubled else _LOGIC.finditer(text))):
        where = line + text.count("\n", 0, found.start())
        scope.leave(found[0], where, "nothing in the recipe declares it")
    return text
