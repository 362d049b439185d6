"""``canserve candidates``: which of all builds at hand serves the model, and what would have to travel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from canserve.cli.options import count_option, machines_option, seconds_option, transformers_option
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
    whole_option,
)
from canserve.verdict import word

if TYPE_CHECKING:
    from canserve.api.candidates import CandidatesReport


@click.command("candidates")
@click.argument("model")
@click.argument("flags", nargs=-1, type=click.UNPROCESSED, metavar="[-- ENGINE FLAGS]")
@machines_option("A machine, or a cluster file.", required=True)
@click.option("-b", "--build", "builds", multiple=True, metavar="BUILD", help="A further build to judge.")
@click.option("--from", "file", metavar="FILE", help="A file of candidates; its form stands above.")
@click.option(
    "--tags",
    multiple=True,
    metavar="docker://HOST/NAME[:GLOB]",
    help="The images under these tags of a repository.",
)
@click.option(
    "--search",
    is_flag=False,
    flag_value="",
    metavar="[WORDS]",
    help="Search public image hubs for these words; only the words are sent. Without words the usual ones.",
)
@click.option("--index/--no-index", default=True, help="The newest suitable release of every engine as well.")
@count_option("--at-most", "Read so many.", default=24, most=1000)
@seconds_option("--within", "Begin no further one after so many.", default=300, least=1)
@click.option(
    "--stored-as", metavar="NAME", help="The weights' name in Hub caches, where MODEL is not a Hub id."
)
@transformers_option
@click.option("--arch", type=click.Choice(["x86_64", "aarch64"]), help="CPU, where no machine says it.")
@deep_option
@format_option("text", "json", "md", "html")
@whole_option
@offline_option
@quiet_option
def command(**chosen: Any) -> int:
    """Say which build at hand serves MODEL, best first.

    Candidates are what the machines run and hold (containers, images of docker and podman, environments), what is
    named here, and the newest suitable release of every engine. Each is judged as `canserve check` does it. Yes
    comes before unknown before no; what is on all machines before what has to travel; then fewer bytes; then the
    newest.

    \b
    canserve candidates Qwen/Qwen3-8B --on cluster.toml
    canserve candidates ./model --on spark-1 --tags 'docker://ghcr.io/team/engine:2026-*'
    canserve candidates ./model --on spark-1 --search 'vllm spark'

    A file of candidates is TOML; each entry has `build`, as --build takes it, or `tags`, as --tags does:

    \b
    [[candidate]]
    build = "docker://registry.example/team/engine:2026-03"
    note = "what the other cluster runs"
    [[hub]]                          # to be searched instead of the public ones
    kind = "docker-hub"              # or "quay", "github": the form of its answers
    address = "https://hub.example"
    registry = "registry.example"

    Exit codes: 0 some candidate is a yes, 3 none is but some may be, 1 all are a no, 2 usage, 4 canserve failed.
    """
    return run(Wanted(**chosen))


@dataclass(frozen=True, slots=True)
class Wanted:
    """The options of one call."""

    model: str
    flags: tuple[str, ...]
    on: tuple[str, ...]
    builds: tuple[str, ...]
    file: str | None
    tags: tuple[str, ...]
    search: str | None
    index: bool
    at_most: int
    within: float
    stored_as: str | None
    transformers: str | None
    arch: str | None
    deep: bool
    form: str
    whole: bool
    offline: bool
    quiet: bool


def run(wanted: Wanted) -> int:
    """Gather, judge, print, and give the exit code."""
    from canserve.api import Options
    from canserve.api.candidates import Sought, candidates
    from canserve.probes.offers.gathering import Named

    words = None if wanted.search is None else ((wanted.search,) if wanted.search.strip() else ())
    named = Named(wanted.builds, wanted.file, wanted.tags, words)
    sought = Sought(named, wanted.index, wanted.at_most, wanted.within, wanted.stored_as)
    with Progress(wanted.quiet) as progress:
        options = Options(
            wanted.offline, wanted.flags, wanted.arch, wanted.transformers, progress, deep=wanted.deep
        )
        report = candidates(wanted.model, on=wanted.on, sought=sought, options=options)
    emit(_rendered(report, wanted))
    if wanted.form == "text":
        remark(
            "canserve check MODEL --on MACHINE --build BUILD says everything that was found of one",
            wanted.quiet,
        )
    return EXIT[word(report.verdict)]


def _rendered(report: CandidatesReport, wanted: Wanted) -> str:
    if wanted.form == "json":
        from canserve.render.candidates_structure import candidates_output
        from canserve.render.structure import to_json

        return to_json(candidates_output(report))
    if wanted.form == "md":
        from canserve.render.candidates_markdown import candidates_markdown

        return candidates_markdown(report)
    if wanted.form == "html":
        from canserve.render.html.candidates import candidates_page

        return candidates_page(report)
    from canserve.render.candidates_text import candidates_text

    return candidates_text(report, look(), whole=wanted.whole)
