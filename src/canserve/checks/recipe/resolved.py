"""recipe-resolved: what decides about serving stands in the recipe itself, and nothing of it would be executed."""

from __future__ import annotations

from canserve.checks.reader import Reader
from canserve.checks.recipe.question import RecipeCheck, line
from canserve.facts import Evidence
from canserve.subjects.build import Build
from canserve.subjects.recipe import Recipe
from canserve.verdict import No, Unknown, Verdict, Yes


def run(reader: Reader, recipe: Recipe, build: Build) -> Verdict:
    """The verdict of ``recipe-resolved``."""
    del build
    used = sum(key.role == "used" for key in recipe.keys)
    reader.cite((Evidence(recipe.name, recipe.form, f"{len(recipe.keys)} values, {used} of them used"),))
    if recipe.refused:
        reader.cite(line(recipe, one.line, one.what) for one in recipe.refused)
        because = "; ".join(f"line {one.line}: {one.why}" for one in recipe.refused)
        return No(because, f"write it plainly: {', '.join(one.what[:60] for one in recipe.refused)}")
    deciding = [one for one in recipe.open if one.decides]
    if deciding:
        reader.cite(line(recipe, one.line, one.what) for one in deciding)
        because = "; ".join(f"line {one.line}: {one.what[:80]} in {one.where}: {one.why}" for one in deciding)
        return Unknown(
            because, "write the values into the recipe, or name a second --recipe FILE.env that sets them"
        )
    return Yes("everything that decides about serving stands in it")


CHECK = RecipeCheck(
    "recipe-resolved",
    "Everything in the recipe that decides about serving is written in it, and nothing of it is for a shell to execute.",
    run,
)
