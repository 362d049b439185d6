"""``canserve status``: what deployments there are, and how they are."""

from __future__ import annotations

from typing import Any

import click

from canserve.cli.output import UNKNOWN, Progress, emit, format_option, look, quiet_option
from canserve.cli.runs import Where, on_options


@click.command("status")
@click.argument("name", metavar="[RUN]", required=False)
@on_options
@format_option("text", "json", "html")
@quiet_option
def command(where: Where, **chosen: Any) -> int:
    """How deployments are, process by process.

    Without RUN all that the journal of this machine has open. With --on whatever is found on these machines, also
    what others started. Machines are only looked at.

    \b
    canserve status
    canserve status 4f2a9c1d
    canserve status --on cluster.toml

    Exit codes: 0 all run, 1 something ended or is gone, 3 something could not be seen, 2 usage, 4 canserve failed.
    """
    from canserve.api.phases import phases_of
    from canserve.api.running import status
    from canserve.render.run_structure import status_output
    from canserve.store.journal import journal

    with Progress(chosen["quiet"]), journal() as kept:
        found = status(where.sought(chosen["name"]), kept)
        phases, stories = phases_of(found), {}
        if chosen["form"] == "html":
            from canserve.api.story import story

            stories = {one.run: story(one.run, kept) for one in found}
    shape = status_output(found, phases)
    if chosen["form"] == "json":
        from canserve.render.structure import to_json

        emit(to_json(shape))
    elif chosen["form"] == "html":
        from canserve.render.html.run import runs_page

        emit(runs_page(found, stories))
    else:
        from canserve.render.run_text import status_text

        emit(status_text(shape.runs, look()))
    words = {one.word for one in found}
    if words & {"partly", "ended", "gone"}:
        return 1
    return UNKNOWN if "unknown" in words else 0
