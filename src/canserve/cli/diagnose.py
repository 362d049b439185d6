"""``canserve diagnose``: the cause behind a log or a stall."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from canserve.cli.output import UNKNOWN, Progress, emit, format_option, look, quiet_option
from canserve.cli.runs import on_options, sought

if TYPE_CHECKING:
    from collections.abc import Callable

    from canserve.cli.runs import Where
    from canserve.subjects.diagnosis import Diagnosis

_STDIN = "-"


@click.command("diagnose")
@click.argument("target", metavar="FILE|DIR|RUN|-")
@on_options
@format_option("text", "json", "md", "html")
@quiet_option
def command(target: str, where: Where, form: str, quiet: bool) -> int:
    """The first cause in a log, and the fix.

    FILE is one log; DIR holds the logs of one deployment, a file a rank, and stack dumps (py-spy) if there are
    any; RUN is a deployment, whose logs are read on its machines; - reads a pipe. Logs may be those of a
    container engine, of Ray, coloured, packed, cut, or gigabytes.

    \b
    canserve diagnose vllm.log
    canserve diagnose 4f2a9c1d
    docker logs engine 2>&1 | canserve diagnose -
    canserve diagnose ./logs-of-all-ranks --format json

    Exit codes: 0 it serves, 1 it failed or stands still, 3 neither can be told.
    """
    with Progress(quiet) as progress:
        found = _found(target, where, progress)
    emit(_rendered(found, form))
    match found.state:
        case "serving":
            return 0
        case "failed" | "stalled":
            return 1
        case "starting" | "stopped" | "unknown":
            return UNKNOWN


def _found(target: str, where: Where, progress: Callable[[str], None]) -> Diagnosis:
    from canserve.api.diagnosing import diagnose, diagnose_run, diagnose_stream

    if target == _STDIN:
        progress("reading the pipe")
        return diagnose_stream(sys.stdin.buffer)
    run = None if not where.on and _is_there(target) else sought(target, where)
    return diagnose(target, progress=progress) if run is None else diagnose_run(run, progress=progress)


def _is_there(target: str) -> bool:
    try:
        return Path(target).exists()
    except OSError:  # no name that a file can have
        return False


def _rendered(found: Diagnosis, form: str) -> str:
    match form:
        case "json":
            from canserve.render.diagnosis_shapes import diagnosis_output
            from canserve.render.structure import to_json

            return to_json(diagnosis_output(found))
        case "md":
            from canserve.render.diagnosis_text import diagnosis_markdown

            return diagnosis_markdown(found)
        case "html":
            from canserve.render.html.diagnosis import diagnosis_page

            return diagnosis_page(found)
        case _:
            from canserve.render.diagnosis_text import diagnosis_text

            return diagnosis_text(found, look())
