"""``canserve machine``: what a machine is, and which profiles there are."""

from __future__ import annotations

from pathlib import Path

import click

from canserve.cli.output import UNKNOWN, Progress, emit, format_option, look, offline_option, quiet_option


@click.command("machine")
@click.argument("spec", metavar="MACHINE", required=False)
@click.option("--list", "listed", is_flag=True, help="Name every profile.")
@click.option(
    "--save",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write what is known to a cluster file (.toml) that --on takes.",
)
@format_option("text", "json")
@offline_option
@quiet_option
def command(spec: str | None, listed: bool, save: Path | None, form: str, offline: bool, quiet: bool) -> int:
    """What a machine is, with sources.

    MACHINE is `local`, an ssh destination, a cluster file (.toml) with several machines, or a profile. Machines are
    looked at with one read-only script over your own ssh; nothing is installed or written there. Exit code 3: one
    could not be looked at.

    \b
    canserve machine --list
    canserve machine profile:dgx-spark
    canserve machine local --save here.toml
    """
    if listed == (spec is not None):
        raise click.UsageError("Name one MACHINE, or ask for --list.")
    if save is not None and (listed or save.suffix != ".toml"):
        raise click.UsageError("--save takes one MACHINE, and a FILE that ends in .toml.")
    if save is not None and spec is not None and Path(spec).resolve() == save.resolve():
        raise click.UsageError("--save would replace the file that is read: name another FILE.")
    from canserve.api import Options, machine_names, read_nodes
    from canserve.render.machine_file import cluster_file
    from canserve.render.structure import machine_output, to_json
    from canserve.render.subject_text import machine_text, names_text

    if spec is None:
        names = machine_names()
        emit(to_json(names) if form == "json" else names_text(names, look()))
        return 0
    with Progress(quiet) as progress:
        nodes = read_nodes(spec, Options(offline=offline, progress=progress))
    machines = tuple(node.machine for node in nodes)
    output = machine_output(machines)
    emit(to_json(output) if form == "json" else machine_text(output, look()))
    if save is not None:
        save.write_text(cluster_file(nodes, spec), encoding="utf-8")
    return 0 if all(machine.reached for machine in machines) else UNKNOWN
