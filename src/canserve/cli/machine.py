"""``canserve machine``: what a machine is, whether several can serve together, and which profiles there are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from canserve.cli.names import check_names
from canserve.cli.options import file_option
from canserve.cli.output import UNKNOWN, Progress, emit, format_option, look, offline_option, quiet_option
from canserve.verdict import word

if TYPE_CHECKING:
    from canserve.api.machines import MachinesReport


@click.command("machine")
@click.argument("spec", metavar="MACHINE", required=False)
@click.option("--list", "listed", is_flag=True, help="Name every profile.")
@click.option(
    "--links", is_flag=True, help="Try what passes between the machines: addresses, ports, packet sizes."
)
@click.option(
    "--bandwidth", is_flag=True, help="With --links: measure one stream after the other, a second each."
)
@click.option(
    "--preflight",
    is_flag=True,
    help="Start a small torch.distributed program on the machines (with --in): does it join, and how fast is it?",
)
@click.option(
    "--in",
    "inside",
    multiple=True,
    metavar="BUILD",
    help="Where --preflight runs: a virtual environment (/PATH) or an image that the machines hold "
    "(docker://IMAGE); MACHINE:BUILD for one machine alone.",
)
@click.option(
    "--env",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="With --preflight: a variable for every rank, such as NCCL_SOCKET_IFNAME.",
)
@file_option(
    "--plan",
    "With --preflight: try the kernels that this saved plan needs, by its dtype and quantization.",
    exists=True,
)
@click.option(
    "--backend",
    type=click.Choice(["nccl", "gloo"]),
    help="With --preflight: instead of what the GPUs suggest.",
)
@click.option(
    "--step-seconds",
    type=click.IntRange(2, 60),
    default=30,
    show_default=True,
    help="With --preflight: how long one step may take.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="With --preflight: print what would run on each machine, and run nothing of it.",
)
@click.option(
    "--check", "checked", is_flag=True, help="Exit by the worst finding: 1 for a no, 3 for an unknown."
)
@file_option("--save", "Write what is known to a cluster file (.toml) that --on takes.")
@click.option(
    "--explain", multiple=True, callback=check_names, metavar="CHECK|all", help="Show what was seen."
)
@format_option("text", "json")
@offline_option
@quiet_option
def command(**chosen: Any) -> int:
    """What a machine is, and what speaks against serving there.

    MACHINE is `local`, an ssh destination, a cluster file (.toml) with several machines, or a profile. Machines are
    looked at with one read-only script over your own ssh; nothing is installed or written there. Of machines that
    were looked at, findings say what stands in the way, alone and together. Exit code 3: one could not be looked
    at; with --check the worst finding decides. Only --preflight starts something there; it ends with this command,
    and leaves nothing.

    \b
    canserve machine --list
    canserve machine profile:dgx-spark
    canserve machine local --save here.toml
    canserve machine cluster.toml --links --check
    canserve machine cluster.toml --preflight --in docker://IMAGE --plan plan.json
    """
    return run(Wanted(**chosen))


@dataclass(frozen=True, slots=True)
class Wanted:
    """The options of one call."""

    spec: str | None
    listed: bool
    links: bool
    bandwidth: bool
    preflight: bool
    inside: tuple[str, ...]
    settings: tuple[str, ...]
    plan: Path | None
    backend: str | None
    step_seconds: int
    dry_run: bool
    checked: bool
    save: Path | None
    explain: tuple[str, ...]
    form: str
    offline: bool
    quiet: bool


def run(wanted: Wanted) -> int:
    """Look, judge, print, and give the exit code."""
    _refuse(wanted)
    from canserve.api import Options, machine_names

    if wanted.spec is None:
        from canserve.render.structure import to_json
        from canserve.render.subject_text import names_text

        names = machine_names()
        emit(to_json(names) if wanted.form == "json" else names_text(names, look()))
        return 0
    from canserve.api.machines import Links, machines

    tried = Links(bandwidth=wanted.bandwidth) if wanted.links else None
    with Progress(wanted.quiet) as progress:
        options = Options(offline=wanted.offline, progress=progress)
        report = machines(wanted.spec, options, tried)
        if wanted.preflight:
            from canserve.api.machines import preflight_script, preflown
            from canserve.cli.preflight import chosen

            what = chosen(wanted, [node.name for node in report.cluster.nodes])
            if wanted.plan is not None:
                from canserve.api.machines import needing

                what = needing(what, wanted.plan, options)
            if wanted.dry_run:
                emit(preflight_script(report, what))
                return 0
            report = preflown(report, what, options)
    emit(_rendered(report, wanted))
    if wanted.save is not None:
        from canserve.render.machine_file import cluster_file

        _write(wanted.save, cluster_file(report.cluster.nodes, wanted.spec))
    if wanted.checked:
        return {"yes": 0, "no": 1, "unknown": UNKNOWN}[word(report.verdict)]
    return 0 if all(node.machine.reached for node in report.cluster.nodes) else UNKNOWN


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.UsageError(f"--save: {file} cannot be written: {error.strerror}.") from error


def _refuse(wanted: Wanted) -> None:
    """Options that do not go together."""
    spec, save = wanted.spec, wanted.save
    if wanted.listed == (spec is not None):
        raise click.UsageError("Name one MACHINE, or ask for --list.")
    if wanted.bandwidth and not wanted.links:
        raise click.UsageError("--bandwidth goes with --links.")
    if wanted.preflight != bool(wanted.inside) or (
        not wanted.preflight and (wanted.settings or wanted.backend or wanted.dry_run or wanted.plan)
    ):
        raise click.UsageError(
            "--preflight needs --in; --in, --env, --plan, --backend and --dry-run go with --preflight."
        )
    if save is not None and (wanted.listed or save.suffix != ".toml"):
        raise click.UsageError("--save takes one MACHINE, and a FILE that ends in .toml.")
    if save is not None and not save.absolute().parent.is_dir():
        raise click.UsageError(f"--save: there is no folder {save.parent}.")
    if save is not None and spec is not None and Path(spec).resolve() == save.resolve():
        raise click.UsageError("--save would replace the file that is read: name another FILE.")


def _rendered(report: MachinesReport, wanted: Wanted) -> str:
    if wanted.form == "json":
        from canserve.render.structure import to_json
        from canserve.render.subject_structure import machine_output

        return to_json(machine_output(report))
    from canserve.render.machines_text import machines_text

    return machines_text(report, look(frozenset(wanted.explain)))
