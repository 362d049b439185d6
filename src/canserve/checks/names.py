"""Names in an answer: those that look like the one that was asked for, or a few of all."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches


def near(name: str, known: Collection[str], cutoff: float = 0.6) -> list[str]:
    """Up to three known names that look like this one, best first."""
    return get_close_matches(name, list(known), n=3, cutoff=cutoff)


def some(names: Collection[str], count: int = 10) -> str:
    """``a, b, c and 39 more``."""
    shown = ", ".join(sorted(names, key=str.lower)[:count])
    return shown if len(names) <= count else f"{shown} and {len(names) - count} more"
