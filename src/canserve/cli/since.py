"""``canserve since``: which releases serve a name."""

from __future__ import annotations

import gc

import click

from canserve.cli.names import either
from canserve.cli.output import UNKNOWN, Progress, emit, format_option, look, offline_option, quiet_option


@click.command("since")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@format_option("text", "json", "md")
@offline_option
@quiet_option
def command(names: tuple[str, ...], form: str, offline: bool, quiet: bool) -> int:
    """Which releases of each engine serve NAME.

    The first, the last and every gap; what is listed and what can be used, with which transformers. NAME is an architecture, a model type, a GGUF architecture, or a model: a Hub id, a folder, a config.json
    or a GGUF file. Answered from the release index that comes with canserve; only a model is read. Of several names only the
    first releases are given.

    \b
    canserve since Qwen3_5MoeForConditionalGeneration
    canserve since glm4_moe_lite
    canserve since ./model --format json
    canserve since Qwen3NextForCausalLM GptOssForCausalLM --format md

    Exit codes: 0 some release serves it, 1 none does or the name is unknown, 3 it could not be told.
    """
    if not all(name.strip() for name in names):
        raise click.UsageError("NAME is empty.")
    gc.disable()  # an answer takes less time than looking for garbage in between
    from canserve.api import Options
    from canserve.api.released import UnknownNameError, UnreadModelError, since
    from canserve.render.escape import visible

    with Progress(quiet) as progress:
        try:
            report = since(names, Options(offline=offline, progress=progress))
        except UnknownNameError as error:
            click.echo(f"Error: {visible(str(error), 300)}.{either(error.nearest)}", err=True)
            click.echo("hint: canserve matrix lists every architecture", err=True)
            return 1
        except UnreadModelError as error:
            click.echo(f"unknown: {visible(str(error), 300)}", err=True)
            ask = error.missing.ask or "name an architecture or a model type"
            click.echo(f"hint: {visible(ask, 300)}", err=True)
            return UNKNOWN
    if form == "json":
        from canserve.render.released_structure import since_output
        from canserve.render.structure import to_json

        emit(to_json(since_output(report)))
    elif form == "md":
        from canserve.render.since_text import since_markdown

        emit(since_markdown(report))
    else:
        from canserve.render.since_text import since_text

        emit(since_text(report, look()))
    said = {one.word for answers in report.answers for one in answers.engines}
    return 0 if "yes" in said else UNKNOWN if "unknown" in said else 1
