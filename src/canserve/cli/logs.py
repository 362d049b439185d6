"""``canserve logs``: what the processes of a deployment wrote."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import click

from canserve.cli.output import Progress, emit, quiet_option
from canserve.cli.runs import Where, on_options


@click.command("logs")
@click.argument("name", metavar="[RUN]", required=False)
@on_options
@click.option(
    "-n", "--tail", type=click.IntRange(0), default=200, show_default=True, help="Lines of each process."
)
@click.option("-f", "--follow", is_flag=True, help="Go on as lines come, until Ctrl-C.")
@quiet_option
def command(where: Where, **chosen: Any) -> int:
    """What the processes of a deployment wrote.

    Each line with its machine and rank. RUN may be left out where there is one. `canserve diagnose` says what it comes down to.

    \b
    canserve logs
    canserve logs 4f2a9c1d -f
    canserve logs -n 100000 | canserve diagnose -

    Exit codes: 0 something was there, 1 nothing, 2 usage, 4 canserve itself failed.
    """
    from canserve.api.running import logs, one_of
    from canserve.render.escape import visible
    from canserve.store.journal import journal

    with journal() as kept:
        with Progress(chosen["quiet"]):
            found = one_of(where.sought(chosen["name"]), kept)
        with closing(logs(found, chosen["tail"], chosen["follow"])) as lines:  # what reads them ends, too
            for line in lines:
                who = f"rank {line.ranks}" if line.ranks else f"process {line.process}"
                emit(f"{visible(line.machine)} {who} | {visible(line.text, 8000)}\n")
    return 0 if found.running else 1
