"""``canserve model``: what one model is."""

from __future__ import annotations

import click

from canserve.cli.output import Progress, emit, format_option, offline_option, quiet_option
from canserve.cli.subject import UNKNOWN, show, whole_option
from canserve.facts import Missing


@click.command("model")
@click.argument("spec", metavar="MODEL")
@format_option("text", "json")
@whole_option
@offline_option
@quiet_option
def command(spec: str, form: str, whole: bool, offline: bool, quiet: bool) -> int:
    """What one model is, by its config and headers.

    MODEL is a Hub id, a folder, a config.json or a GGUF file. No weights are downloaded.
    """
    from canserve.api import Options, read_model
    from canserve.render.structure import model_output

    with Progress(quiet) as progress:
        model = read_model(spec, Options(offline=offline, progress=progress))
    emit(show(model_output(model), form, whole))
    return UNKNOWN if isinstance(model.architectures, Missing) else 0
