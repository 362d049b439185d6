"""Every check, in one tuple."""

from __future__ import annotations

from typing import TypeAlias

from canserve.checks import deployment, layout, machines, preflight, recipe
from canserve.checks.deployment.question import ReadingCheck
from canserve.checks.machines.question import ClusterCheck
from canserve.checks.plain import PLAIN
from canserve.checks.preflight.question import PreflightCheck
from canserve.checks.reader import Check
from canserve.checks.recipe.question import RecipeCheck
from canserve.checks.served import CHECKS as SERVED
from canserve.checks.served.check import ServedCheck

CHECKS: tuple[Check, ...] = (*PLAIN, *layout.CHECKS)
"""Those of a layout last: they are loaded only where one is judged."""

Described: TypeAlias = Check | RecipeCheck | ClusterCheck | PreflightCheck | ReadingCheck | ServedCheck

REFERENCE: tuple[Described, ...] = (
    *CHECKS,
    *recipe.CHECKS,
    *machines.CHECKS,
    *preflight.CHECKS,
    *deployment.CHECKS,
    *SERVED,
)
"""With those of machines, deployments and served endpoints, which need neither build nor model."""
