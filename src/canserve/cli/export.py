"""``canserve export``: a plan in the forms of other tools."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from canserve.cli.options import wished_options
from canserve.cli.output import Progress, emit, format_option, quiet_option

if TYPE_CHECKING:
    from canserve.api.exporting import Export
    from canserve.api.wished import UpWishes

FORMS = ("compose", "shell", "systemd", "sparkrun", "leaderworkerset", "kuberay")


@click.command("export")
@click.argument("plan", metavar="PLAN")
@click.option("--to", "to", type=click.Choice(FORMS), required=True, help="The form.")
@click.option("--out", metavar="DIR", help="Write files below this folder.  [default: print them]")
@wished_options
@format_option("text", "json")
@quiet_option
def command(**chosen: Any) -> int:
    """Write a plan for another tool to start.

    PLAN is a file that `canserve plan --save` wrote, whose first plan is exported, or one that was exported: the same
    processes, words and variables that `canserve up` starts, which takes exported files too. Compose files, shell scripts and systemd units come one set a machine; a
    sparkrun recipe, a LeaderWorkerSet and a RayCluster (kuberay) are for all machines. What a form cannot say is a
    note, and a comment in the file. Values of secrets are never written. Nothing is started; without --accelerators
    machines that run containers are looked at for what they have.

    \b
    canserve export plan.json --to compose --on cluster.toml --out deploy
    canserve export plan.json --to leaderworkerset --accelerators nvidia | kubectl apply -f -

    Exit codes: 0 written, 2 usage or what the form cannot say, 4 canserve itself failed.
    """
    return run(Wanted(**chosen))


@dataclass(frozen=True, slots=True)
class Wanted:
    """The options of one call."""

    plan: str
    to: str
    out: str | None
    wishes: UpWishes
    form: str
    quiet: bool


def run(wanted: Wanted) -> int:
    """Write or print, and give the exit code."""
    from canserve.api import Options
    from canserve.api.exporting import export, put_down

    with Progress(wanted.quiet) as progress:
        made = export(wanted.plan, wanted.to, wanted.wishes, Options(progress=progress))
        paths = () if wanted.out is None else put_down(made.files.files, Path(wanted.out))
    if not wanted.quiet:
        for note in made.notes:
            click.echo(f"note: {note}", err=True)
    emit(_rendered(made, tuple(map(str, paths)), wanted))
    return 0


def _rendered(made: Export, paths: tuple[str, ...], wanted: Wanted) -> str:
    from canserve.render.export_structure import export_output, export_text

    if wanted.form == "json":
        from canserve.render.structure import to_json

        return to_json(export_output(made, paths))
    return export_text(made, paths, terminal=sys.stdout.isatty())
