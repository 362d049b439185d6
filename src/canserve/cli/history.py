"""``canserve history``: what was put into service from here, and how that went."""

from __future__ import annotations

import click

from canserve.cli.output import emit, format_option, look


@click.command("history")
@click.argument("name", metavar="[RUN]", required=False)
@format_option("text", "json")
def command(name: str | None, form: str) -> int:
    """What was put into service from this machine, the latest first.

    With RUN the whole story of that `canserve up`: candidates that were refused or passed over, every step on every
    machine, phases, causes, where evidence was kept, and how it was taken away. No machine is asked.

    \b
    canserve history
    canserve history 4f2a9c1d
    """
    from canserve.api import SpecError
    from canserve.api.story import story
    from canserve.render.history import history_output, history_text
    from canserve.store.journal import journal

    with journal() as kept:
        entries = kept.runs()
        if name is not None and not any(one.run == name for one in entries):
            raise SpecError(f"the journal has no run {name}", "canserve history names those that it has")
        shape = history_output(entries, None if name is None else story(name, kept))
    if form == "json":
        from canserve.render.structure import to_json

        emit(to_json(shape))
    else:
        emit(history_text(shape, look()))
    return 0
