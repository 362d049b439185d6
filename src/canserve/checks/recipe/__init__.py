"""Checks of a recipe against a build: what it leaves open, whose flags it holds, which releases it asks for."""

from __future__ import annotations

from canserve.checks.recipe.engine import CHECK as ENGINE
from canserve.checks.recipe.question import RecipeCheck
from canserve.checks.recipe.resolved import CHECK as RESOLVED
from canserve.checks.recipe.versions import CHECK as VERSIONS
from canserve.subjects.build import Build
from canserve.subjects.recipe import Recipe
from canserve.verdict import Finding, Skipped

__all__ = ["CHECKS", "ENGINE", "RESOLVED", "VERSIONS", "judge"]

CHECKS: tuple[RecipeCheck, ...] = (RESOLVED, ENGINE, VERSIONS)


def judge(recipe: Recipe, build: Build) -> tuple[tuple[Finding, ...], tuple[Skipped, ...]]:
    """What each of them says, and which do not apply."""
    found = [each.judge(recipe, build) for each in CHECKS]
    return (
        tuple(each for each in found if isinstance(each, Finding)),
        tuple(each for each in found if isinstance(each, Skipped)),
    )
