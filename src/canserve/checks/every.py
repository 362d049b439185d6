"""Every check, in one tuple."""

from __future__ import annotations

from canserve.checks import layout
from canserve.checks.plain import PLAIN
from canserve.checks.reader import Check

CHECKS: tuple[Check, ...] = (*PLAIN, *layout.CHECKS)
"""Those of a layout last: they are loaded only where one is judged."""
