"""``canserve adopt``: take over a deployment that another operator started."""

from __future__ import annotations

from typing import Any

import click

from canserve.cli.options import machines_option, state_option
from canserve.cli.output import UNKNOWN, Progress, emit, format_option, look, quiet_option


@click.command("adopt")
@click.argument("name", metavar="[RUN]", required=False)
@machines_option("The machines that hold it.", required=True)
@click.option("--podman", is_flag=True, help="Ask podman, not docker.")
@state_option
@format_option("text", "json")
@quiet_option
def command(**chosen: Any) -> int:
    """Take over a deployment that somebody else started.

    It comes into the journal of this machine; what runs is not touched. From then on `canserve status`, `logs`,
    `verify` and `down` find it here without --on, with what its plan promised; every machine notes who took it over, and
    names whoever that is as its holder. RUN may be left out where there is one.

    \b
    canserve adopt 4f2a9c1d --on cluster.toml

    Exit codes: 0 it was taken over, 3 not every machine could note it, 2 usage, 4 canserve itself failed.
    """
    from canserve.api.adopting import adopt
    from canserve.api.running import Sought
    from canserve.render.escape import visible
    from canserve.render.run_structure import status_output
    from canserve.store.journal import journal

    programs = ("podman",) if chosen["podman"] else ()
    sought = Sought(chosen["name"], chosen["on"], chosen["state"], programs)
    with Progress(chosen["quiet"]) as progress, journal() as kept:
        done = adopt(sought, kept, progress)
    shape = status_output((done.found,))
    if chosen["form"] == "json":
        from canserve.render.structure import to_json

        emit(to_json(shape))
    else:
        from canserve.render.run_text import status_text

        emit(status_text(shape.runs, look()))
    for failure in done.left:
        click.echo(visible(f"{failure.step.machine}: {failure.why}"), err=True)
    return UNKNOWN if done.left else 0
