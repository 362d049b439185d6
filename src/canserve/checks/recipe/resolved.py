"""recipe-resolved: what decides about serving stands in the recipe itself, and nothing of it would be executed."""

from __future__ import annotations

from canserve.checks.reader import Reader
from canserve.checks.recipe.question import RecipeCheck, line
from canserve.facts import Evidence
from canserve.subjects.build import Build
from canserve.subjects.recipe import Recipe
from canserve.verdict import No, Unknown, Verdict, Yes

VALUES = "write the values into the recipe, or name a second --recipe FILE.env that sets them"
FILES = "put the file beside the recipe, or name it with a further --recipe FILE"


def run(reader: Reader, recipe: Recipe, build: Build) -> Verdict:
    """The verdict of ``recipe-resolved``."""
    del build
    used = sum(key.role == "used" for key in recipe.keys)
    reader.cite((Evidence(recipe.name, recipe.form, f"{len(recipe.keys)} values, {used} of them used"),))
    if recipe.refused:
        reader.cite(line(recipe, one.line, one.what) for one in recipe.refused)
        because = "; ".join(f"line {one.line}: {one.why}" for one in recipe.refused)
        return No(because, f"write it plainly: {', '.join(one.what[:60] for one in recipe.refused)}")
    files = [(file, why) for file in recipe.files if file.decides and (why := file.unread) is not None]
    reader.cite(look for file in recipe.files for look in file.found.evidence)
    deciding = [one for one in recipe.open if one.decides]
    if deciding or files:
        reader.cite(line(recipe, one.line, one.what) for one in deciding)
        reader.cite(line(recipe, file.line, file.path) for file, _ in files)
        reasons = [f"line {one.line}: {one.what[:80]} in {one.where}: {one.why}" for one in deciding]
        reasons += [f"line {file.line}: {file.path[:80]} ({file.purpose}): {why}" for file, why in files]
        asks = [VALUES] if deciding else []
        asks += [FILES] if files else []
        return Unknown("; ".join(reasons), "; ".join(asks))
    return Yes("everything that decides about serving stands in it")


CHECK = RecipeCheck(
    "recipe-resolved",
    "Everything in the recipe that decides about serving is written in it, and nothing of it is for a shell to execute.",
    run,
)
