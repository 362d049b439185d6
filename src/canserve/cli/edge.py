"""The outermost edge: whatever happens inside becomes an exit code and at most two lines."""

from __future__ import annotations

import os
import sys
import traceback
from types import TracebackType
from typing import Literal

import click

USAGE, FAILED, INTERRUPTED = 2, 4, 130


class Edge:
    """A context that always ends the process. ``code`` is the exit code when nothing goes wrong."""

    def __init__(self) -> None:
        self.code = 0

    def __enter__(self) -> Edge:
        for stream in (sys.stdout, sys.stderr):  # no name from outside may upset an encoding
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Literal[False]:
        del kind, trace
        if isinstance(error, SystemExit):
            return False
        sys.exit(self.code if error is None else _report(error))


def _report(error: BaseException) -> int:
    if os.environ.get("CANSERVE_TRACE") == "1":
        traceback.print_exception(error)
    match error:
        case click.Abort() | KeyboardInterrupt():
            return INTERRUPTED
        case click.ClickException():
            error.show()
            if isinstance(error, click.NoSuchOption) and error.ctx and error.ctx.info_name == "check":
                click.echo("hint: flags for the engine stand at the end, after --", err=True)
            return error.exit_code
        case _:
            return _failed(error)


def _failed(error: BaseException) -> int:
    from canserve.api import SpecError
    from canserve.render.escape import visible

    if isinstance(error, SpecError):
        click.echo(f"Error: {visible(str(error))}", err=True)
        if error.hint:
            click.echo(f"hint: {visible(error.hint)}", err=True)
        return USAGE
    click.echo(f"canserve failed: {type(error).__name__}: {visible(str(error), 500)}", err=True)
    whose = (
        "the system refused that"
        if isinstance(error, OSError)
        else "please report that, it is canserve's fault"
    )
    click.echo(f"hint: {whose}; CANSERVE_TRACE=1 shows where", err=True)
    return FAILED
