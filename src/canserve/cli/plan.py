"""``canserve plan``: what fits, how fast, and how it is started."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from canserve.cli import recipe as recipes
from canserve.cli.options import (
    count_option,
    engine_args_option,
    file_option,
    machines_option,
    transformers_option,
)
from canserve.cli.output import (
    EXIT,
    Progress,
    emit,
    format_option,
    look,
    offline_option,
    quiet_option,
    remark,
    whole_option,
)
from canserve.verdict import word

if TYPE_CHECKING:
    from canserve.api.planning import PlanReport
    from canserve.plan.wishes import Wishes


MANY = 1 << 20
"""More accelerators than anybody plans for."""
ALL = "all"


def tokens(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """``262144`` or ``256k``."""
    if value is None:
        return None
    from canserve.plan.wishes import read_count

    try:
        return read_count(value)
    except ValueError as error:
        raise click.BadParameter(f"{error}.", ctx, param) from error


def spread(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """A number of ranks; 0 stands for all of them."""
    if value is None or value == ALL:
        return None if value is None else 0
    if not value.isdecimal() or not 0 < int(value) < MANY:
        raise click.BadParameter(
            f"{value!r} is no number of ranks; for all of them leave it out.", ctx, param
        )
    return int(value)


@click.command("plan")
@click.argument("model", required=False)
@machines_option("A machine, or several alike: 2xprofile:dgx-spark.")
@click.option(
    "-b", "--build", "builds", multiple=True, metavar="BUILD", help="A build; else the newest that suit."
)
@recipes.recipe_options
@click.option("--context", callback=tokens, metavar="N", help="Tokens of the longest sequence, such as 256k.")
@count_option("--concurrency", "Sequences of that length at once.")
@count_option("--tp", "Tensor parallel; of --tp, --pp and --dp those not named are 1 then.")
@count_option("--pp", "Pipeline stages.")
@count_option("--dp", "Data parallel replicas.")
@click.option(
    "--ep",
    callback=spread,
    is_flag=False,
    flag_value=ALL,
    metavar="[N]",
    help="Spread experts over N ranks, or over all.",
)
@count_option("--gpus", "Use so many accelerators of each machine.")
@engine_args_option("An engine option under the engine's own name.")
@click.option(
    "--goal",
    type=click.Choice(["latency", "throughput", "context"]),
    default="latency",
    show_default=True,
    help="What plans are ranked for.",
)
@click.option(
    "--what-if",
    "what_if",
    multiple=True,
    metavar="NAME=VALUE ...",
    help="Compare the best plan with this changed: an engine option, or build=BUILD.",
)
@file_option("--save", "Keep the plans, for up.")
@transformers_option
@format_option("text", "json", "md", "html", "junit")
@whole_option
@offline_option
@quiet_option
def command(**chosen: Any) -> int:
    """Say what fits on these machines: layouts, memory, speed.

    MODEL is a Hub id, a folder, a config.json or a GGUF file. A MACHINE is `local`, an ssh destination,
    a cluster file, or a profile (`canserve machine --list` names them); machines are looked at unless --offline is given.
    A recipe (see `canserve check --help`) gives model, build, layout and engine options where these are not named;
    an exported plan gives the same plan again.

    \b
    canserve plan Qwen/Qwen3-8B --on profile:h200 --build vllm==0.25.1 --tp 1
    canserve plan ./model --on 2xprofile:dgx-spark --context 256k --concurrency 4
    canserve plan ./model --on cluster.toml --what-if kv_cache_dtype=fp8
    canserve plan --recipe recipe.yaml --on 2xprofile:dgx-spark

    Exit codes: 0 a plan fits, 1 none does, 3 it could not be decided, 2 usage, 4 canserve itself failed.
    """
    return run(Wanted(**chosen))


@dataclass(frozen=True, slots=True)
class Wanted:
    """The options of one call."""

    model: str | None
    on: tuple[str, ...]
    recipes: tuple[str, ...]
    part: str | None
    builds: tuple[str, ...]
    context: int | None
    concurrency: int | None
    tp: int | None
    pp: int | None
    dp: int | None
    ep: int | None
    gpus: int | None
    engine_args: tuple[str, ...]
    goal: str
    what_if: tuple[str, ...]
    save: Path | None
    transformers: str | None
    form: str
    whole: bool
    offline: bool
    quiet: bool


def run(wanted: Wanted) -> int:
    """Plan, print, and give the exit code."""
    from canserve.api import Options
    from canserve.api.planning import Asked, plan

    loaded = recipes.read(wanted.recipes, wanted.part, wanted.model, wanted.builds, wanted.on, wanted.offline)
    model = recipes.needed(wanted.model, loaded)
    with Progress(wanted.quiet) as progress:
        options = Options(wanted.offline, transformers=wanted.transformers, progress=progress)
        what_if = tuple(_changes(text) for text in wanted.what_if)
        asked = Asked(wanted.on, wanted.builds, wanted.gpus, _wishes(wanted), what_if)
        if loaded is not None:
            from canserve.api.recipes import asked_with

            asked, options = asked_with(asked, options, loaded)
        if not asked.on:
            raise click.UsageError("Missing option '--on' / '-m'.")
        report = plan(model, asked, options)
    emit(_rendered(report, wanted))
    if wanted.save is not None:
        _save(report, wanted)
    return EXIT[word(report.verdict)]


def _wishes(wanted: Wanted) -> Wishes:
    from canserve.layout import Fixed
    from canserve.plan.wishes import GOALS, Wishes

    fixed = Fixed(wanted.tp, wanted.pp, wanted.dp, wanted.ep or None)
    alone = any((wanted.tp, wanted.pp, wanted.dp))
    (goal,) = (goal for goal in GOALS if goal == wanted.goal)
    options = _options(wanted.engine_args, "--engine-arg")
    return Wishes(goal, wanted.context, wanted.concurrency, fixed, alone, wanted.ep == 0, options)


def _changes(text: str) -> dict[str, object]:
    """One what-if: a change, or several that are made together."""
    try:
        words = shlex.split(text) if " " in text and "{" not in text else [text]
    except ValueError as error:
        raise click.UsageError(f"--what-if: {error}: {text!r}") from error
    return _options(tuple(words), "--what-if")


def read_engine_args(texts: tuple[str, ...]) -> dict[str, object]:
    """Engine options as ``--engine-arg`` takes them."""
    return _options(texts, "--engine-arg")


def _options(texts: tuple[str, ...], flag: str) -> dict[str, object]:
    from canserve.plan.wishes import read_options

    try:
        return read_options(texts)
    except ValueError as error:
        raise click.UsageError(f"{flag}: {error}") from error


def _rendered(report: PlanReport, wanted: Wanted) -> str:
    if wanted.form == "json":
        from canserve.render.plan_structure import plans_output
        from canserve.render.structure import to_json

        return to_json(plans_output(report.plans))
    if wanted.form == "md":
        from canserve.render.plan_markdown import plans_markdown

        return plans_markdown(report)
    if wanted.form == "html":
        from canserve.render.html.plan import plans_page

        return plans_page(report)
    if wanted.form == "junit":
        from canserve.render.junit import plans_junit

        return plans_junit(report)
    from canserve.render.plan_text import plans_text

    return plans_text(report, look(), whole=wanted.whole)


def _save(report: PlanReport, wanted: Wanted) -> None:
    """The candidates, best first, in the format of ``--format json``."""
    from canserve.render.plan_structure import plans_output
    from canserve.render.structure import to_json

    assert wanted.save is not None
    if not report.plans.plans:
        remark("nothing was saved: there is no plan", wanted.quiet)
        return
    wanted.save.write_text(to_json(plans_output(report.plans.candidates())), encoding="utf-8")
    remark(f"saved to {wanted.save}", wanted.quiet)
