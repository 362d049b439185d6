"""Options that several commands take, each in one place."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from canserve.cli.output import F

STATE = "/var/tmp/canserve"  # noqa: S108 - as in subjects/deployment.py, which is loaded when it is used


def machines_option(says: str, required: bool = False) -> Callable[[F], F]:
    """``--on``, as often as there are machines."""
    return click.option("-m", "--on", "on", multiple=True, required=required, metavar="MACHINE", help=says)


def state_option(function: F) -> F:
    """``--state``."""
    return click.option(
        "--state", metavar="PATH", help=f"Where machines keep claims and logs.  [default: {STATE}]"
    )(function)


def file_option(flag: str, says: str, exists: bool = False) -> Callable[[F], F]:
    """A file that is read or written."""
    kind = click.Path(exists=exists, dir_okay=False, path_type=Path)
    return click.option(flag, type=kind, metavar="FILE", help=says)


def count_option(
    flag: str, says: str, default: int | None = None, most: int | None = None
) -> Callable[[F], F]:
    """A number of things, one at least."""
    kind = click.IntRange(1, most)
    return click.option(
        flag, type=kind, default=default, show_default=default is not None, metavar="N", help=says
    )


def seconds_option(flag: str, says: str, default: float, least: float = 0) -> Callable[[F], F]:
    """A time."""
    kind = click.FloatRange(least)
    return click.option(flag, type=kind, default=default, show_default=True, metavar="SECONDS", help=says)


def engine_args_option(says: str) -> Callable[[F], F]:
    """``--engine-arg``."""
    return click.option("-e", "--engine-arg", "engine_args", multiple=True, metavar="NAME=VALUE", help=says)


def transformers_option(function: F) -> F:
    """``--with``."""
    return click.option(
        "--with",
        "transformers",
        metavar="transformers==X",
        callback=_transformers_version,
        help="Judge as if this version were installed beside the engine.",
    )(function)


def _transformers_version(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """``transformers==4.53.2`` -> ``4.53.2``."""
    del ctx
    if value is None:
        return None
    name, separator, version = value.partition("==")
    if name.strip() != "transformers" or not separator or not version.strip():
        raise click.BadParameter(f"{value!r} is not of the form transformers==VERSION.", param=param)
    return version.strip()


_WISHED = (
    machines_option("A machine, or a cluster file."),
    click.option(
        "--in", "inside", metavar="WHERE", help="docker-daemon:IMAGE, podman:IMAGE or an environment's path."
    ),
    click.option(
        "--accelerators",
        type=click.Choice(["nvidia", "amd", "intel", "none"]),
        help="What containers are given, where machines do not say it.",
    ),
    click.option(
        "--mount", "mounts", multiple=True, metavar="/THERE:/INSIDE[:rw]", help="A folder for containers."
    ),
    click.option("--hub-cache", metavar="PATH", help="The Hub cache on the machines."),
    click.option(
        "--env", "environment", multiple=True, metavar="NAME=VALUE", help="A variable for every process."
    ),
    click.option(
        "--secret", "secrets", multiple=True, metavar="NAME", help="A variable of the logins there."
    ),
    click.option(
        "--secret-file", "secret_files", multiple=True, metavar="PATH", help="A file there: NAME=VALUE lines."
    ),
    click.option("--force", is_flag=True, help="Although the plan says no."),
    state_option,
)

_GIVEN = (
    "on",
    "inside",
    "accelerators",
    "mounts",
    "hub_cache",
    "environment",
    "secrets",
    "secret_files",
    "force",
)


def wished_options(run: Callable[..., int]) -> Callable[..., int]:
    """Where a plan is put into service, and what every process is given: handed on as one value, ``wishes``."""

    @wraps(run)
    def taken(*, state: str | None, **chosen: Any) -> int:
        from canserve.api.wished import UpWishes

        given = {name: chosen.pop(name) for name in _GIVEN}
        return run(wishes=UpWishes(state=state or STATE, **given), **chosen)

    decorated: Callable[..., int] = taken
    for option in reversed(_WISHED):
        decorated = option(decorated)
    return decorated
