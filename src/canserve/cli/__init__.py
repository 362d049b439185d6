"""The command line. One file a command; each is loaded when it is used, its work only when it runs."""

from __future__ import annotations

import os
import sys
from importlib import import_module

import click

from canserve import __version__
from canserve.cli.edge import Edge
from canserve.cli.names import nearest

COMMANDS = (
    "check",
    "recipes",
    "candidates",
    "plan",
    "up",
    "status",
    "logs",
    "adopt",
    "down",
    "history",
    "distribute",
    "export",
    "verify",
    "since",
    "matrix",
    "index",
    "build",
    "model",
    "machine",
    "diagnose",
    "checks",
    "schema",
    "cache",
    "mcp",
    "doctor",
    "completion",
)
COMPLETE = "_CANSERVE_COMPLETE"
"""The environment variable by which a shell asks what may stand where."""
ELSEWHERE = {"mcp": "canserve.mcp.command"}
"""Commands that stand on another floor than this one."""


class Commands(click.Group):
    """Commands by the name of the module that holds them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All of them, the main one first."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported now."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module = ELSEWHERE.get(cmd_name, f"canserve.cli.{cmd_name}")
        command: click.Command = import_module(module).command
        if COMPLETE in os.environ:
            from canserve.cli.completing import offer

            offer(command, cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As usual, and with the nearest name where there is no such command."""
        unknown = bool(args) and args[0] not in COMMANDS and not args[0].startswith("-")
        if unknown and not ctx.resilient_parsing:  # a shell that completes needs no answer
            ctx.fail(f"No such command {args[0]!r}.{nearest(args[0], COMMANDS)}")
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and name is not None and {"-h", "--help"} & set(rest):
            from canserve.cli.promises import promise

            promise(command, name)
        return name, command, rest


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(prog)s %(version)s")
def root() -> None:
    """Say whether an engine build will serve a model on your machines.

    Answered from the build's own files, before anything is pulled, installed or started. No check
    executes anything of a build or model.

    \b
    canserve check Qwen/Qwen3-8B --build vllm==0.17.1 --build sglang==0.5.9
    canserve check ./model --build ./venv --on profile:dgx-spark
    canserve since Qwen3NextForCausalLM
    canserve up plan.json --on cluster.toml --dry-run

    Exit codes: 0 all yes, 1 some no, 3 no "no" but some unknown, 2 usage, 4 canserve itself failed.
    """


def main() -> None:
    """Run the command line and exit."""
    with Edge() as edge:
        if COMPLETE in os.environ:
            import_module("canserve.cli.completing")
        try:
            edge.code = root.main(prog_name="canserve", standalone_mode=False) or 0
        finally:
            say_what_was_passed_over()


def say_what_was_passed_over() -> None:
    """One line on stderr for each index file that could not be used; nothing where no index was asked."""
    if (places := sys.modules.get("canserve.index.places")) is not None:
        from canserve.render.escape import visible

        for problem in places.problems():
            click.echo(f"note: {visible(problem, 400)}", err=True)
