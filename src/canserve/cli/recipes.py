"""``canserve recipes``: every recipe of a repository."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from canserve.cli.output import (
    EXIT,
    UNKNOWN,
    Progress,
    emit,
    format_option,
    look,
    offline_option,
    quiet_option,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from canserve.api.recipes_checked import RecipeReport


@click.command("recipes")
@click.argument("paths", metavar="FILE|DIR ...", nargs=-1)
@click.option("-m", "--on", metavar="MACHINE", help="The machine that they are for.")
@click.option(
    "--allow-unknown", is_flag=True, help="Exit 0 where nothing is a no: for a hook before a commit."
)
@format_option("text", "md", "junit", "sarif")
@offline_option
@quiet_option
def command(**chosen: Any) -> int:
    """Check every recipe of a repository.

    Each as `canserve check --recipe` does it. FILE is one recipe; below DIR, all files are looked at that may be one (.yaml, .yml, .sh, .env, .service,
    .container). What starts no engine is passed over. Recipes are read and never executed.

    \b
    canserve recipes deploy/
    canserve recipes recipes/*.yaml --on profile:h200 --format sarif > canserve.sarif

    Exit codes: 0 all yes, or no recipe is there; 1 some no; 3 no "no" but some unknown; 2 usage; 4 canserve itself failed.
    """
    from canserve.api import Options
    from canserve.api.recipes_checked import check_recipes, worst_of

    if not chosen["paths"]:
        raise click.UsageError("Name a FILE or DIR.")
    with Progress(chosen["quiet"]) as progress:
        options = Options(chosen["offline"], progress=progress)
        reports = check_recipes(chosen["paths"], chosen["on"], options)
    emit(_rendered(reports, chosen["form"]))
    code: int = EXIT[worst_of(reports)]
    return 0 if code == UNKNOWN and chosen["allow_unknown"] else code


def _rendered(reports: Sequence[RecipeReport], form: str) -> str:
    from canserve.render import recipes_reports as render

    match form:
        case "md":
            return render.recipes_markdown(reports)
        case "junit":
            return render.recipes_junit(reports)
        case "sarif":
            return render.recipes_sarif(reports)
        case _:
            return render.recipes_text(reports, look())
