"""``canserve check``: the main question."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from canserve.cli import recipe as recipes
from canserve.cli.names import check_names
from canserve.cli.options import transformers_option
from canserve.cli.output import (
    EXIT,
    Progress,
    deep_option,
    emit,
    format_option,
    look,
    offline_option,
    quiet_option,
    remark,
)
from canserve.units import Bytes
from canserve.verdict import word

if TYPE_CHECKING:
    from canserve.api import Report


def engine_flags(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Everything after ``--``; a word that is no flag is most likely a build without ``--build``."""
    moved = str(ctx.params.get("model") or "").startswith("-")  # with a recipe the first flag stands there
    if value and not value[0].startswith("-") and not moved:
        hint = f" Did you mean --build {value[0]}?" if not ctx.params.get("builds") else ""
        raise click.UsageError(
            f"Got {value[0]!r} after the model. Flags for the engine follow --.{hint}", ctx
        )
    del param
    return value


@click.command("check")
@click.argument("model", required=False)
@click.argument("flags", nargs=-1, type=click.UNPROCESSED, callback=engine_flags, metavar="[-- ENGINE FLAGS]")
@click.option(
    "-b",
    "--build",
    "builds",
    multiple=True,
    metavar="BUILD",
    help="A build to judge; without one, which release of each engine to use.",
)
@click.option("-m", "--on", metavar="MACHINE", help="The machine it would run on.")
@recipes.recipe_options
@transformers_option
@click.option("--arch", type=click.Choice(["x86_64", "aarch64"]), help="CPU, where no machine says it.")
@click.option(
    "--explain", multiple=True, callback=check_names, metavar="CHECK|all", help="Show file and line."
)
@deep_option
@format_option("text", "json", "md", "html", "junit", "sarif")
@offline_option
@quiet_option
def command(**chosen: Any) -> int:
    """Say whether these builds will serve MODEL.

    MODEL is a Hub id, a folder, a config.json or a GGUF file. A BUILD is a release (NAME==VERSION), a wheel,
    a virtual environment or source tree (elsewhere: MACHINE:/PATH), an image (oci:FOLDER, oci-archive:FILE, docker-archive:FILE,
    docker://HOST/REPOSITORY:TAG; held by an engine: docker-daemon:IMAGE or podman:IMAGE, then @MACHINE) or a
    container (container://NAME@MACHINE), read where it is and never run. A MACHINE is `local`, an ssh destination, a cluster file, or
    a profile (`canserve machine --list` names them); machines are looked at unless --offline is given.

    Without any --build the release index answers: which release of each engine should I use? The newest that
    suits, judged by the same checks; exit code 0 when some engine has one.

    A recipe gives MODEL, BUILD and flags where they are not named: a docker run, vllm serve or other server's line, a shell
    script, a page of Markdown, a compose file, a Dockerfile, a recipe of sparkrun, spark-vllm-docker or vllm-project, a systemd
    unit, a Kubernetes manifest (KServe, Ray and LeaderWorkerSet too), a task of SkyPilot or dstack. It is read and never executed;
    files that it refers to are read below its own folder. What is not understood or left open is told by line.

    \b
    canserve check Qwen/Qwen3-8B --build vllm==0.17.1 --build sglang==0.5.9
    canserve check --recipe compose.yaml --recipe site.env --on profile:h200
    canserve check Qwen/Qwen3-8B --on profile:dgx-spark
    canserve check ./model --build ./venv --on profile:dgx-spark -- --reasoning-parser qwen3
    """
    return run(Wanted(**chosen))


@dataclass(frozen=True, slots=True)
class Wanted:
    """The options of one call."""

    model: str | None
    flags: tuple[str, ...]
    recipes: tuple[str, ...]
    part: str | None
    builds: tuple[str, ...]
    on: str | None
    transformers: str | None
    arch: str | None
    explain: tuple[str, ...]
    form: str
    offline: bool
    quiet: bool
    deep: bool


def run(wanted: Wanted) -> int:
    """Judge, print, and give the exit code."""
    from canserve.api import Options, check

    wanted = _without_model(wanted)
    on = (wanted.on,) if wanted.on else ()
    loaded = recipes.read(wanted.recipes, wanted.part, wanted.model, wanted.builds, on, wanted.offline)
    model, builds = recipes.needed(wanted.model, loaded), wanted.builds
    with Progress(wanted.quiet) as progress:
        options = Options(
            wanted.offline, wanted.flags, wanted.arch, wanted.transformers, progress, deep=wanted.deep
        )
        if loaded is not None:
            from canserve.api.recipes import builds_of, options_with

            options = options_with(options, loaded.recipe)
            builds = builds_of(loaded, builds, on)
        report = check(model, builds, on=wanted.on, options=options)
    emit(_rendered(report, wanted))
    cost = report.cost
    if cost.whole_downloads and not wanted.quiet:
        count = "1 file was" if cost.whole_downloads == 1 else f"{cost.whole_downloads} files were"
        click.echo(f"{count} downloaded whole, {Bytes(cost.bytes)} in all", err=True)
    if wanted.form == "text" and not wanted.explain:
        read = (
            f"read {Bytes(cost.bytes)} in {cost.requests} {'request' if cost.requests == 1 else 'requests'}; "
            if cost.requests
            else ""
        )
        remark(f"{read}--explain all shows file and line of everything that was read", wanted.quiet)
    return EXIT[word(report.verdict)]


def _without_model(wanted: Wanted) -> Wanted:
    """With a recipe the first word after ``--`` is a flag, not a model."""
    model = wanted.model
    if not wanted.recipes or model is None or not model.startswith("-"):
        return wanted
    return replace(wanted, model=None, flags=(model, *wanted.flags))


def _rendered(report: Report, wanted: Wanted) -> str:
    explain = frozenset(wanted.explain)
    if wanted.form == "json":
        from canserve.render.structure import check_output, to_json

        return to_json(check_output(report))
    if wanted.form == "md":
        from canserve.render.markdown import check_markdown

        return check_markdown(report, explain)
    match wanted.form:
        case "html":
            from canserve.render.html.check import check_page

            return check_page(report)
        case "junit":
            from canserve.render.junit import check_junit

            return check_junit(report)
        case "sarif":
            from canserve.render.sarif import check_sarif

            return check_sarif(report)
        case _:
            from canserve.render.text import check_text

            return check_text(report, look(explain))
