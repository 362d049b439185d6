"""Every check, in one tuple."""

from __future__ import annotations

from canserve.checks import layout, machines
from canserve.checks.machines.question import ClusterCheck
from canserve.checks.plain import PLAIN
from canserve.checks.reader import Check

CHECKS: tuple[Check, ...] = (*PLAIN, *layout.CHECKS)
"""Those of a layout last: they are loaded only where one is judged."""

REFERENCE: tuple[Check | ClusterCheck, ...] = (*CHECKS, *machines.CHECKS)
"""With those of machines alone and together, which need neither build nor model."""
