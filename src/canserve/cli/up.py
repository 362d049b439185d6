"""``canserve up``: put a plan into service."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from canserve.cli import recipe as recipes
from canserve.cli.live import Live
from canserve.cli.options import count_option, engine_args_option, seconds_option, wished_options
from canserve.cli.output import UNKNOWN, emit, format_option, look, quiet_option
from canserve.cli.plan import tokens

if TYPE_CHECKING:
    from canserve.api import Options
    from canserve.api.wished import UpWishes
    from canserve.render.run_shapes import UpShape

CODES = {"up": 0, "starting": UNKNOWN, "stalled": 1, "failed": 1, "interrupted": 130}


@click.command("up")
@click.argument("what", metavar="PLAN|MODEL", required=False)
@recipes.recipe_options
@click.option("-b", "--build", "builds", multiple=True, metavar="BUILD", help="For a MODEL: a build.")
@click.option("--context", callback=tokens, metavar="N", help="For a MODEL: tokens of the longest sequence.")
@count_option("--tp", "For a MODEL: tensor parallel.")
@count_option("--pp", "For a MODEL: pipeline stages.")
@engine_args_option("For a MODEL: an engine option.")
@wished_options
@click.option("--dry-run", is_flag=True, help="Print every command, run none.")
@seconds_option("--wait", "Until it answers; what moves then is left starting.", default=3600)
@click.option(
    "--patience",
    type=click.FloatRange(0.01, 100),
    default=1,
    show_default=True,
    metavar="FACTOR",
    help="How long a phase may stand still, times so much.",
)
@click.option("--no-first-token", is_flag=True, help="Ready is enough: send it no request.")
@count_option("--tries", "Candidates started at most.", default=3)
@click.option(
    "--restart",
    metavar="POLICY",
    help="Of containers, once it serves: on-failure[:N], unless-stopped, always.",
)
@click.option("--no-distribute", is_flag=True, help="Bring nothing to machines that lack it.")
@click.option("--keep", is_flag=True, help="Leave standing what failed.")
@format_option("text", "json")
@quiet_option
def command(**chosen: Any) -> int:
    """Put a plan into service.

    PLAN is a file that `canserve plan --save` or `export` wrote; for a MODEL plans are made first. The best is
    started; where it fails or stands still, its logs and stacks are kept, it is taken away, and the next one is
    tried, but no cause twice. Every machine is claimed, so that a second operator is told; image and weights are
    brought to machines that lack them. Exactly what --dry-run prints is run, over your own ssh.

    \b
    canserve up plan.json --on cluster.toml --dry-run
    canserve up plan.json --on cluster.toml
    canserve up --recipe recipe.yaml --on spark-1 --on spark-2 --dry-run
    canserve up /models/Qwen3-8B --on spark-1 --build docker-daemon:vllm/vllm-openai:latest@spark-1

    Exit codes: 0 it answers, 1 it failed or stands still, 3 it is still starting, 2 usage, 4 canserve itself failed.
    """
    return run(Wanted(**chosen))


@dataclass(frozen=True, slots=True)
class Wanted:
    """The options of one call."""

    what: str | None
    recipes: tuple[str, ...]
    part: str | None
    builds: tuple[str, ...]
    context: int | None
    tp: int | None
    pp: int | None
    engine_args: tuple[str, ...]
    wishes: UpWishes
    dry_run: bool
    wait: float
    patience: float
    no_first_token: bool
    tries: int
    restart: str | None
    no_distribute: bool
    keep: bool
    form: str
    quiet: bool


def run(wanted: Wanted) -> int:
    """Prepare, carry out, print, and give the exit code."""
    from canserve.api import Options
    from canserve.api.deploying import Doing
    from canserve.api.falling_back import Manner, bring_up, first
    from canserve.api.wished import candidate_plans
    from canserve.cli.interrupts import interrupts
    from canserve.probes.live import routes
    from canserve.render.run_structure import story_output, up_output
    from canserve.store.journal import journal

    how = Manner(wanted.tries, not wanted.no_distribute)
    with Live(wanted.quiet) as progress:
        what, wishes, options = _asked(wanted, Options(progress=progress))
        plans = candidate_plans(what, wishes, options)
        if wanted.dry_run:
            prepared = first(plans, wishes, options, how)
            emit(_rendered(up_output(prepared, routes(prepared.nodes), None), wanted))
            return 0
        with journal() as kept:
            doing = Doing(
                kept, wanted.wait, wanted.keep, tell=progress, show=progress.show,
                patience=wanted.patience, first_token=not wanted.no_first_token,
            )  # fmt: skip
            with interrupts((doing.stop, doing.undoing)):
                story = bring_up(plans, wishes, doing, options, how)
    report = story.report
    emit(_rendered(story_output(story, routes(report.prepared.nodes)), wanted))
    return CODES[report.state]


def _asked(wanted: Wanted, options: Options) -> tuple[str, UpWishes, Options]:
    """What is to be started, and how: as it is named, or as a recipe says it."""
    from canserve.api.wished import completed

    loaded = recipes.read(wanted.recipes, wanted.part, wanted.what, wanted.builds, wanted.wishes.on)
    if loaded is not None:
        from canserve.api.recipes import up_with

        return up_with(wanted.what, _wishes(wanted), options, loaded)
    if wanted.what is None:
        raise click.UsageError("Missing argument 'PLAN|MODEL'.")
    return wanted.what, completed(wanted.what, _wishes(wanted)), options


def _wishes(wanted: Wanted) -> UpWishes:
    from canserve.api.planning import Asked
    from canserve.cli.plan import read_engine_args
    from canserve.layout import Fixed
    from canserve.plan.wishes import Wishes

    options = read_engine_args(wanted.engine_args)
    fixed = Fixed(wanted.tp, wanted.pp, None, None)
    wishes = Wishes("latency", wanted.context, None, fixed, any((wanted.tp, wanted.pp)), False, options)
    asked = Asked(wanted.wishes.on, wanted.builds, None, wishes)
    return replace(wanted.wishes, asked=asked, restart=wanted.restart)


def _rendered(shape: UpShape, wanted: Wanted) -> str:
    if wanted.form == "json":
        from canserve.render.structure import to_json

        return to_json(shape)
    from canserve.render.run_text import up_text

    return up_text(shape, look())
