"""Checks: one file a question, all of them listed in one tuple.

The tuple is put together when it is first asked for: most questions to the index need a few checks only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from canserve.checks.every import CHECKS as CHECKS
    from canserve.checks.every import REFERENCE as REFERENCE


def __getattr__(name: str) -> object:
    if name in {"CHECKS", "REFERENCE"}:
        from canserve.checks import every

        return getattr(every, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
