"""``canserve schema``: what the JSON output looks like."""

from __future__ import annotations

import click

from canserve.cli.output import emit

OUTPUTS = (
    "check", "candidates", "plan", "up", "status", "down", "distribute", "export", "verify", "since", "matrix", "build",
    "model", "machine", "diagnose", "checks", "doctor",
)  # fmt: skip


@click.command("schema")
@click.argument("output", type=click.Choice(OUTPUTS), default="check")
def command(output: str) -> int:
    """The JSON Schema of one command's `--format json`."""
    from importlib.resources import files

    emit((files("canserve.render") / "schema" / f"{output}.json").read_text("utf-8"))
    return 0
