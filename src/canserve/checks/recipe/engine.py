"""recipe-engine-matches: the recipe's words are for the engine that the build is."""

from __future__ import annotations

from canserve.checks.reader import NotApplicable, Reader
from canserve.checks.recipe.question import RecipeCheck, line
from canserve.facts import Evidence
from canserve.subjects.build import Build
from canserve.subjects.recipe import Recipe
from canserve.verdict import No, Verdict, Yes


def run(reader: Reader, recipe: Recipe, build: Build) -> Verdict:
    """The verdict of ``recipe-engine-matches``."""
    if recipe.engine is None:
        raise NotApplicable("the recipe does not say which engine it starts")
    at = next((command.line for command in recipe.commands if command.engine == recipe.engine), 1)
    reader.cite((
        line(recipe, at, f"starts {recipe.engine}"),
        Evidence(build.identity.subject, build.identity.origin, f"is {build.identity.engine}"),
    ))  # fmt: skip
    if recipe.engine == build.identity.engine:
        return Yes(f"both are {recipe.engine}")
    return No(
        f"the recipe starts {recipe.engine} (line {at}), the build is {build.identity.engine}",
        f"name a build of {recipe.engine}",
    )


CHECK = RecipeCheck("recipe-engine-matches", "The recipe starts the engine that the build is.", run)
