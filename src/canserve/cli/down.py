"""``canserve down``: take a deployment away."""

from __future__ import annotations

from typing import Any

import click

from canserve.cli.output import UNKNOWN, Progress, emit, format_option, look, quiet_option
from canserve.cli.runs import Where, on_options


@click.command("down")
@click.argument("name", metavar="[RUN]", required=False)
@on_options
@click.option("--dry-run", is_flag=True, help="Print every command, run none.")
@format_option("text", "json")
@quiet_option
def command(where: Where, **chosen: Any) -> int:
    """Take a deployment away: what `canserve up` made, nothing else.

    RUN may be left out where there is one. Processes are asked to end, then made to; containers, claims and logs
    go. Another operator's is found with --on. What is not there any more is no error.

    \b
    canserve down
    canserve down 4f2a9c1d --on cluster.toml --dry-run

    Exit codes: 0 nothing is left, 1 something is, 3 a machine could not be asked, 2 usage, 4 canserve itself failed.
    """
    from canserve.api.running import Downing, down
    from canserve.cli.interrupts import interrupts
    from canserve.render.run_structure import down_output
    from canserve.store.journal import journal

    with Progress(chosen["quiet"]) as progress, journal() as kept:
        how = Downing(chosen["dry_run"], tell=progress)
        with interrupts((how.stop,)):
            report = down(where.sought(chosen["name"]), kept, how)
    shape = down_output(report, report.ways, chosen["dry_run"])
    if chosen["form"] == "json":
        from canserve.render.structure import to_json

        emit(to_json(shape))
    else:
        from canserve.render.run_text import down_text

        emit(down_text(shape, look()))
    if not report.left:
        return 0
    return 1 if any(failure.reached for failure in report.left) else UNKNOWN
