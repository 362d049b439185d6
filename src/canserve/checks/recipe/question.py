"""A question about a recipe and a build."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from canserve.checks.reader import Claim, Reader
from canserve.facts import Evidence
from canserve.subjects.build import Build
from canserve.subjects.recipe import Recipe
from canserve.verdict import Finding, Skipped, Verdict


@dataclass(frozen=True, slots=True)
class RecipeCheck(Claim):
    """A question about a recipe and the build it would start."""

    run: Callable[[Reader, Recipe, Build], Verdict]

    @property
    def when(self) -> str:
        """Where it is judged, for the check reference."""
        return "with a recipe (--recipe)"

    def judge(self, recipe: Recipe, build: Build) -> Finding | Skipped:
        """Run the check on one recipe and build."""
        about = f"{recipe.name} with {build.identity.subject}"
        return self.found(about, lambda reader: self.run(reader, recipe, build))


def line(recipe: Recipe, number: int, saw: str) -> Evidence:
    """A look at one line of the recipe."""
    return Evidence(recipe.name, f"line {number}", saw)
