"""``--recipe``: what a command is asked, from a file of another tool."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from canserve.api.recipes import Loaded

F = TypeVar("F", bound=Callable[..., Any])


def recipe_options(function: F) -> F:
    """``--recipe`` and ``--part``."""
    part = click.option(
        "--part", metavar="NAME", help="Of a recipe with several: service, container, line or variant."
    )
    files = click.option(
        "--recipe",
        "recipes",
        multiple=True,
        metavar="FILE|-",
        help="Model, build and flags from a recipe; further FILEs are those that it refers to, or a .env.",
    )
    return files(part(function))


def read(
    files: tuple[str, ...],
    part: str | None,
    model: str | None,
    builds: tuple[str, ...],
    on: tuple[str, ...] = (),
    offline: bool = False,
) -> Loaded | None:
    """The recipe in these files; None: none was named. What the user names beside it, it need not say."""
    if not files:
        if part is not None:
            raise click.UsageError("--part names something of a recipe: name that with --recipe.")
        return None
    from canserve.api.recipes import builds_of, load, overruled, with_table

    loaded = load(files, part)
    if model is None and loaded.recipe.after_flags is not None:
        from canserve.api import Options

        loaded = with_table(loaded, builds_of(loaded, builds, on), Options(offline))
    return overruled(loaded, model, builds)


def needed(model: str | None, loaded: Loaded | None) -> str:
    """The model that is asked about: named, or the recipe's. Raises UsageError."""
    if loaded is not None:
        from canserve.api.recipes import model_of

        return model_of(loaded.recipe, model)
    if model is None:
        raise click.UsageError("Missing argument 'MODEL'.")
    return model
