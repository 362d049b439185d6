"""What the commands about one subject share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from canserve.cli.output import colour, width

if TYPE_CHECKING:
    from canserve.render.shapes import BuildShape, MachineOutputShape, ModelOutputShape

UNKNOWN = 3
"""Exit code when the subject could not be read."""

F = TypeVar("F", bound=Callable[..., Any])


def whole_option(function: F) -> F:
    """``--all``."""
    return click.option("-a", "--all", "whole", is_flag=True, help="Every name of long lists.")(function)


def show(output: BuildShape | ModelOutputShape | MachineOutputShape, form: str, whole: bool) -> str:
    """The subject in the asked form."""
    if form == "json":
        from canserve.render.structure import to_json

        return to_json(output)
    from canserve.render.page import Look
    from canserve.render.subject_text import subject_text

    return subject_text(output, Look(width(), colour()), whole=whole)
