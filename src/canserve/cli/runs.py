"""A deployment by its name, where a command takes other things too."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from canserve.cli.options import machines_option, state_option

if TYPE_CHECKING:
    from canserve.api.running import Found, Sought

_MADE = re.compile(r"[0-9a-f]{8}")
"""As ``up`` names its runs."""
_NAME = re.compile(r"[a-z0-9]{1,32}")


@dataclass(frozen=True, slots=True)
class Where:
    """Where a deployment is looked for."""

    on: tuple[str, ...] = ()
    podman: bool = False
    state: str | None = None

    def sought(self, name: str | None) -> Sought:
        """The deployment of that name, or the only one, there."""
        from canserve.api.running import Sought

        return Sought(name, self.on, self.state, ("podman",) if self.podman else ())


def on_options(run: Callable[..., int]) -> Callable[..., int]:
    """The options that say where, handed on as one value, ``where``."""

    @machines_option("Where RUN is; else as the journal says.")
    @click.option("--podman", is_flag=True, help="With --on: ask podman, not docker.")
    @state_option
    @wraps(run)
    def taken(*, on: tuple[str, ...], podman: bool, state: str | None, **rest: Any) -> int:
        return run(where=Where(on, podman, state), **rest)

    decorated: Callable[..., int] = taken
    return decorated


def sought(name: str, where: Where) -> Found | None:
    """The deployment of that name; None: it names none. Raises SpecError where one is meant that is not known."""
    from canserve.store.journal import default_folder, journal

    if not where.on and (not _NAME.fullmatch(name) or not default_folder().exists()):
        return None
    from canserve.api.running import one_of

    with journal() as kept:
        if not where.on and kept.run(name) is None and not _MADE.fullmatch(name):
            return None
        return one_of(where.sought(name), kept)
