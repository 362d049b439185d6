"""``canserve build``: what one build offers."""

from __future__ import annotations

import click

from canserve.cli.output import (
    UNKNOWN,
    Progress,
    deep_option,
    emit,
    format_option,
    look,
    offline_option,
    quiet_option,
    whole_option,
)
from canserve.facts import Missing


@click.command("build")
@click.argument("target", metavar="BUILD")
@format_option("text", "json")
@whole_option
@click.option("--arch", type=click.Choice(["x86_64", "aarch64"]), help="CPU, where there are several.")
@deep_option
@offline_option
@quiet_option
def command(target: str, form: str, arch: str | None, whole: bool, deep: bool, **quietly: bool) -> int:
    """What one build offers, by its own files.

    BUILD is a release (NAME==VERSION), a wheel, a virtual environment or source tree (elsewhere:
    MACHINE:/PATH), an image (oci:FOLDER, oci-archive:FILE, docker-archive:FILE, docker://HOST/REPOSITORY:TAG;
    held by an engine: docker-daemon:IMAGE or podman:IMAGE, then @MACHINE) or a container (container://NAME@MACHINE).

    \b
    canserve build vllm==0.17.1
    canserve build ./venv --format json
    """
    from canserve.api import Options, read_build
    from canserve.render.structure import to_json
    from canserve.render.subject_structure import build_output
    from canserve.render.subject_text import build_text

    with Progress(quietly["quiet"]) as progress:
        options = Options(offline=quietly["offline"], arch=arch, progress=progress, deep=deep)
        build = read_build(target, options)
    output = build_output(target, build)
    emit(to_json(output) if form == "json" else build_text(output, look(), whole=whole))
    return UNKNOWN if isinstance(build, Missing) else 0
