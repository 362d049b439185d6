"""``canserve checks``: the check reference."""

from __future__ import annotations

import click

from canserve.cli.output import emit, format_option, look


@click.command("checks")
@format_option("text", "json", "md")
def command(form: str) -> int:
    """Every check: its name, and what a yes means."""
    from canserve.checks import REFERENCE

    if form == "json":
        from canserve.render.structure import checks_output, to_json

        emit(to_json(checks_output(REFERENCE)))
    elif form == "md":
        from canserve.render.markdown import checks_markdown

        emit(checks_markdown(REFERENCE))
    else:
        from canserve.render.subject_text import checks_text

        emit(checks_text(REFERENCE, look()))
    return 0
