"""``canserve mcp``: the same answers for agents."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from canserve.cli.options import file_option
from canserve.cli.output import remark

NEEDED = "mcp"
"""The extra, and the package, that it needs."""


@click.command("mcp")
@click.option("--http", "over_http", is_flag=True, help="Streamable HTTP on loopback, not stdin and stdout.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="With --http; 0: any free."
)
@file_option(
    "--token-file",
    "With --http: holds the token; made where there is none.  [default: in canserve's data folder]",
)
@click.option(
    "--allow-changes",
    is_flag=True,
    help="up, down, adopt and distribute may run what they have shown and was approved.",
)
def command(over_http: bool, port: int, token_file: Path | None, allow_changes: bool) -> int:
    """Serve every question as a tool for agents.

    Model Context Protocol on stdin and stdout, or with --http on 127.0.0.1 for who sends the token. Tools read
    and look; those that change machines only show the steps, unless --allow-changes is given: then a second call that
    names what was shown runs exactly that.

    \b
    canserve mcp
    canserve mcp --http --port 8765
    claude mcp add canserve -- canserve mcp
    """
    if token_file is not None and not over_http:
        raise click.UsageError("--token-file goes with --http.")
    try:
        import anyio
        import mcp  # noqa: F401 - whether it is there
    except ModuleNotFoundError as error:
        from canserve.api import SpecError

        raise SpecError(f"{error.name} is not installed", f"pip install 'canserve[{NEEDED}]'") from error
    if over_http:
        return _over_http(port, token_file, allow_changes)

    async def talk() -> None:
        from mcp.server.stdio import stdio_server

        from canserve.mcp.server import server

        made = server(allow_changes=allow_changes)
        remark(
            "waiting for a client on stdin; --http listens on loopback instead", quiet=not sys.stdin.isatty()
        )
        async with stdio_server() as (read, write):
            await made.run(read, write, made.create_initialization_options())

    anyio.run(talk)
    return 0


def _over_http(port: int, token_file: Path | None, allow_changes: bool) -> int:
    import anyio

    from canserve.mcp.loopback import HOST, listening, serve
    from canserve.mcp.server import server
    from canserve.mcp.tokens import token_in, usual

    path = token_file or usual()
    token = token_in(path)
    try:
        opened = listening(port)
    except OSError as error:
        raise click.UsageError(f"{HOST}:{port}: {error.strerror or error}; --port names another.") from error

    def ready(address: str) -> None:
        click.echo(f"{address} is ready; send the token of {path} as Authorization: Bearer", err=True)

    with opened:
        anyio.run(serve, server(allow_changes=allow_changes), opened, token, ready)
    return 0
