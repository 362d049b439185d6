"""A question about a recipe and a build."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from canserve.checks.reader import NotApplicable, Reader, UnfoundedYesError, Unread
from canserve.facts import Evidence
from canserve.subjects.build import Build
from canserve.subjects.recipe import Recipe
from canserve.verdict import Finding, Skipped, Unknown, Verdict, Yes


@dataclass(frozen=True, slots=True)
class RecipeCheck:
    """A question with a fixed meaning. ``name`` is a claim; ``run`` is pure."""

    name: str
    claim: str
    """One sentence for the check reference: what a yes means."""
    run: Callable[[Reader, Recipe, Build], Verdict]
    needs_machine: bool = False
    needs_layout: bool = False

    @property
    def when(self) -> str:
        """Where it is judged, for the check reference."""
        return "with a recipe (--recipe)"

    def judge(self, recipe: Recipe, build: Build) -> Finding | Skipped:
        """Run the check on one recipe and build."""
        about = f"{recipe.name} with {build.identity.subject}"
        reader = Reader()
        try:
            verdict = self.run(reader, recipe, build)
        except NotApplicable as reason:
            return Skipped(self.name, about, str(reason))
        except Unread as unread:
            missing = unread.missing
            verdict = Unknown(missing.why, missing.ask or f"make it readable: {missing.why}")
        if isinstance(verdict, Yes) and not reader.evidence:
            raise UnfoundedYesError(f"{self.name} said yes about {about} without reading anything")
        return Finding(self.name, about, verdict, tuple(reader.evidence))


def line(recipe: Recipe, number: int, saw: str) -> Evidence:
    """A look at one line of the recipe."""
    return Evidence(recipe.name, f"line {number}", saw)
