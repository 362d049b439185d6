"""``canserve doctor``: the tool's own state, for a bug report."""

from __future__ import annotations

import click

from canserve.cli.output import emit, format_option, look


@click.command("doctor")
@click.option("--paths", is_flag=True, help="Paths as they are; else the home folder is ~.")
@format_option("text", "md", "json")
def command(paths: bool, form: str) -> int:
    """Canserve's own state, as a bug report needs it.

    Versions, the release index, cache and journal, the programs that canserve calls, the terminal. No secret is
    shown: of variables that may hold one only that they are set. Nothing is asked of the network.

    \b
    canserve doctor --format md
    """
    from canserve.api.tool_state import tool_state
    from canserve.render import doctor_text as render

    state = tool_state(paths=paths)
    if form == "json":
        from canserve.render.structure import to_json

        emit(to_json(state))
    else:
        emit(render.doctor_markdown(state) if form == "md" else render.doctor_text(state, look()))
    return 0
