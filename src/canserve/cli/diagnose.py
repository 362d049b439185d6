"""``canserve diagnose``: the cause behind a log or a stall."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from canserve.cli.output import UNKNOWN, Progress, emit, format_option, look, quiet_option

if TYPE_CHECKING:
    from canserve.subjects.diagnosis import Diagnosis

_STDIN = "-"


@click.command("diagnose")
@click.argument("target", metavar="FILE|DIR|-")
@format_option("text", "json", "md")
@quiet_option
def command(target: str, form: str, quiet: bool) -> int:
    """The first cause in a log, and the fix.

    FILE is one log; DIR holds the logs of one deployment, a file a rank, and stack dumps (py-spy) if there are
    any; - reads a pipe. Logs may be those of a container engine, of Ray, coloured, packed, cut, or gigabytes.

    \b
    canserve diagnose vllm.log
    docker logs engine 2>&1 | canserve diagnose -
    canserve diagnose ./logs-of-all-ranks --format json

    Exit codes: 0 it serves, 1 it failed or stands still, 3 neither can be told.
    """
    from canserve.api.diagnosing import diagnose, diagnose_stream

    with Progress(quiet) as progress:
        if target == _STDIN:
            progress("reading the pipe")
            found = diagnose_stream(sys.stdin.buffer)
        else:
            found = diagnose(target, progress=progress)
    emit(_rendered(found, form))
    match found.state:
        case "serving":
            return 0
        case "failed" | "stalled":
            return 1
        case "starting" | "stopped" | "unknown":
            return UNKNOWN


def _rendered(found: Diagnosis, form: str) -> str:
    match form:
        case "json":
            from canserve.render.diagnosis_shapes import diagnosis_output
            from canserve.render.structure import to_json

            return to_json(diagnosis_output(found))
        case "md":
            from canserve.render.diagnosis_text import diagnosis_markdown

            return diagnosis_markdown(found)
        case _:
            from canserve.render.diagnosis_text import diagnosis_text

            return diagnosis_text(found, look())
