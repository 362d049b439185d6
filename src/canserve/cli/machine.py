"""``canserve machine``: what a machine is, and which profiles there are."""

from __future__ import annotations

import click

from canserve.cli.output import emit, format_option, look


@click.command("machine")
@click.argument("spec", metavar="MACHINE", required=False)
@click.option("--list", "listed", is_flag=True, help="Name every profile.")
@format_option("text", "json")
def command(spec: str | None, listed: bool, form: str) -> int:
    """What a machine is, with sources.

    MACHINE is a profile, or a cluster file (.toml) with several machines.

    \b
    canserve machine --list
    canserve machine profile:dgx-spark
    """
    if listed == (spec is not None):
        raise click.UsageError("Name one MACHINE, or ask for --list.")
    from canserve.api import machine_names, read_machines
    from canserve.render.structure import machine_output, to_json
    from canserve.render.subject_text import machine_text, names_text

    if spec is None:
        names = machine_names()
        emit(to_json(names) if form == "json" else names_text(names, look()))
    else:
        output = machine_output(read_machines(spec))
        emit(to_json(output) if form == "json" else machine_text(output, look()))
    return 0
