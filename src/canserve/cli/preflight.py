"""The words of ``canserve machine --preflight``: where it runs, and with which variables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from canserve.cli.machine import Wanted as Options
    from canserve.commands.preflight import Place
    from canserve.probes.preflight import Wanted

_SETTING = re.compile(r"([A-Za-z_][A-Za-z0-9_]{0,80})=([^\0\n]{0,400})")
_IMAGE = re.compile(r"(docker|podman)://([A-Za-z0-9][^\s\0]{0,400})")


def chosen(options: Options, names: Sequence[str]) -> Wanted:
    """What was asked for; a usage error where it cannot be understood."""
    from canserve.probes.preflight import Wanted

    places = dict(_place(word, names) for word in options.inside)
    settings = {}
    for word in options.settings:
        found = _SETTING.fullmatch(word)
        if found is None:
            raise click.UsageError(f"--env takes NAME=VALUE, not {word!r}.")
        settings[found[1]] = found[2]
    return Wanted(places, settings, options.backend, options.step_seconds)


def _place(word: str, names: Sequence[str]) -> tuple[str, Place]:
    """The machine, empty for all of them, and what was named for it."""
    from canserve.commands.preflight import Environment, Image

    machine = next((name for name in sorted(names, key=len, reverse=True) if word.startswith(f"{name}:")), "")
    build = word.removeprefix(f"{machine}:") if machine else word
    image = _IMAGE.fullmatch(build)
    if image is not None:
        return machine, Image(image[1], image[2])
    if build.startswith("/") and not re.search(r"[\0\n]", build):
        return machine, Environment(build)
    raise click.UsageError(
        f"--in takes /PATH of an environment or docker://IMAGE, of one machine MACHINE:/PATH, not {word!r}; "
        f"the machines are {', '.join(names)}."
    )
