"""A recipe in a few lines: what it is, what was taken from it, what was not understood."""

from __future__ import annotations

from collections.abc import Iterable

from canserve.subjects.recipe import Key, Recipe

MOST = 12
"""Remarks of one kind that are listed one by one."""


def summary(recipe: Recipe) -> str:
    """One line: the form, what it starts, how much of it was taken."""
    parts = [recipe.form]
    if recipe.engine:
        parts.append(f"starts {recipe.engine}")
    if recipe.image is not None:
        parts.append(f"image {recipe.image.value} (line {recipe.image.line})")
    flags = sum(word.value.startswith("-") for word in recipe.args)
    parts += [_counted(flags, "flag"), _counted(len(recipe.environment), "variable")]
    if recipe.nodes is not None:
        parts.append(f"{recipe.nodes.value} machines")
    if recipe.stated:
        wanted = dict.fromkeys(f"{one.about}{one.releases} (line {one.line})" for one in recipe.stated)
        parts.append(f"asks for {', '.join(wanted)}")
    return f"recipe {recipe.name}: {', '.join(part for part in parts if part)}"


def remarks(recipe: Recipe) -> Iterable[str]:
    """Unknown keys, what is left open and decides nothing, and notes: a line each."""
    unknown = recipe.unknown
    for key in unknown[:MOST]:
        yield f"{recipe.name}, line {key.line}: unknown key {_said(key)}: kept, not judged"
    if len(unknown) > MOST:
        yield f"{recipe.name}: {len(unknown) - MOST} further unknown keys; --format json lists them"
    aside = [one for one in recipe.open if not one.decides]
    for one in aside[:MOST]:
        where = f" in {one.where}" if one.where else ""
        yield f"{recipe.name}, line {one.line}: {one.what}{where} is left open: {one.why}"
    for note in recipe.notes:
        yield f"{recipe.name}{',' if note.startswith('line ') else ':'} {note}"


def _said(key: Key) -> str:
    value = f" = {key.value[:60]}" if key.value and key.value != key.path else ""
    return f"{key.path}{value}"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}" if count else ""
