"""``canserve machine``: what one machine is, and which profiles there are."""

from __future__ import annotations

import click

from canserve.cli.output import colour, emit, format_option, width
from canserve.cli.subject import show


@click.command("machine")
@click.argument("spec", metavar="MACHINE", required=False)
@click.option("--list", "listed", is_flag=True, help="Name every profile.")
@format_option("text", "json")
def command(spec: str | None, listed: bool, form: str) -> int:
    """What one machine is, with sources.

    \b
    canserve machine --list
    canserve machine profile:dgx-spark
    """
    if listed == (spec is not None):
        raise click.UsageError("Name one MACHINE, or ask for --list.")
    from canserve.api import machine_names, read_machine
    from canserve.render.page import Look
    from canserve.render.structure import machine_output, to_json
    from canserve.render.subject_text import names_text

    if spec is None:
        names = machine_names()
        emit(to_json(names) if form == "json" else names_text(names, Look(width(), colour())))
    else:
        emit(show(machine_output(spec, read_machine(spec)), form, whole=True))
    return 0
