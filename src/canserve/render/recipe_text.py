"""A recipe in one line: what it is, and what was taken from it."""

from __future__ import annotations

from canserve.subjects.recipe import Recipe


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


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}" if count else ""
