"""Checks of a model on a layout on machines; each is run only where a layout is judged."""

from __future__ import annotations

from collections.abc import Sequence

from canserve.checks.case import Case
from canserve.checks.layout import (
    cache_fits,
    constraints,
    context,
    device_holds,
    disk_holds,
    launcher,
    weights_fit,
)
from canserve.checks.reader import Check
from canserve.verdict import Finding, Skipped

CHECKS = (
    *constraints.CHECKS,
    weights_fit.CHECK,
    context.CHECK,
    cache_fits.CONTEXT,
    cache_fits.STATE,
    device_holds.GRAPHS,
    device_holds.START,
    device_holds.HOST,
    disk_holds.CHECK,
    launcher.CHECK,
)


def judge(case: Case, checks: Sequence[Check] = CHECKS) -> tuple[tuple[Finding, ...], tuple[Skipped, ...]]:
    """What each of them says of the case's layout, and which do not apply to it."""
    found = [each.judge(case) for each in checks]
    return (
        tuple(each for each in found if isinstance(each, Finding)),
        tuple(each for each in found if isinstance(each, Skipped)),
    )
