"""``.env``: variables for another recipe; of spark-vllm-docker also machines and what containers are given."""

from __future__ import annotations

import re

from canserve.recipes.draft import Draft
from canserve.rules.recipes import is_secret, machines
from canserve.subjects.recipe import HIDDEN, Said

FORM = ".env"
_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*")


def is_variables(text: str) -> bool:
    """Whether a text is nothing but variables and comments."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return bool(lines) and all((found := _LINE.fullmatch(line)) and _alone(found[2]) for line in lines)


def _alone(value: str) -> bool:
    """Whether it is a value and not followed by a command."""
    return value[:1] in ("'", '"') or not re.search(r"\s(?!#)", value.strip().removesuffix("\\"))


def read(text: str, draft: Draft) -> None:
    """Fill the draft: the variables of its scope, machines, what containers are given."""
    draft.form = draft.form or FORM
    known = machines()
    for number, line in enumerate(text.splitlines(), 1):
        found = _LINE.fullmatch(line)
        if found is None or line.lstrip().startswith("#"):
            draft.says(line, number)
            continue
        name, value = found[1], _unquoted(found[2])
        if not is_secret(name):
            draft.scope.variables[name] = value
        inside = name.removeprefix(known.prefix) if name.startswith(known.prefix) else None
        if name == known.machines:
            draft.machines = tuple(Said(each.strip(), number) for each in value.split(",") if each.strip())
            draft.key(name, value, number, "used")
        elif inside and name not in known.but:
            draft.environment[inside] = draft.variable(inside, value, number)
            draft.key(name, HIDDEN if is_secret(name) else value, number, "used")
        else:
            draft.key(
                name,
                HIDDEN if is_secret(name) else value,
                number,
                "aside" if name in known.aside else "unknown",
            )


def _unquoted(value: str) -> str:
    if value[:1] in ("'", '"') and (end := value.find(value[0], 1)) > 0:
        return value[1:end]
    return re.split(r"\s+#", value)[0]
