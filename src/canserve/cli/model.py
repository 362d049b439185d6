"""``canserve model``: what one model is."""

from __future__ import annotations

import click

from canserve.cli.output import (
    UNKNOWN,
    Progress,
    emit,
    format_option,
    look,
    offline_option,
    quiet_option,
    whole_option,
)
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
    from canserve.render.structure import to_json
    from canserve.render.subject_structure import model_output
    from canserve.render.subject_text import model_text

    with Progress(quiet) as progress:
        model = read_model(spec, Options(offline=offline, progress=progress))
    output = model_output(model)
    emit(to_json(output) if form == "json" else model_text(output, look(), whole=whole))
    return UNKNOWN if isinstance(model.architectures, Missing) else 0
