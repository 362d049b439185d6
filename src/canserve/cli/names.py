"""Nearest names for what was mistyped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

import click


def nearest(typed: str, names: Iterable[str]) -> str:
    """`` Did you mean a, b or c?`` with a leading space, or nothing."""
    known = {name.lower(): name for name in names}
    return either([known[name] for name in get_close_matches(typed.lower(), known, n=3)])


def either(close: Sequence[str]) -> str:
    """The same question about names that are already known to be close."""
    if not close:
        return ""
    return f" Did you mean {' or '.join(filter(None, (', '.join(close[:-1]), close[-1])))}?"


def check_names(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Names of checks, or ``all``. Fails with the nearest names when there is no such check."""
    if set(value) - {"all"}:
        from canserve.checks import REFERENCE

        names = [*(check.name for check in REFERENCE), "all"]
        for name in value:
            if name not in names:
                raise click.BadParameter(f"no check is called {name!r}.{nearest(name, names)}", ctx, param)
    return value
