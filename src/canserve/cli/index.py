"""``canserve index``: what every release supports, brought up to date."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from canserve.cli.names import nearest
from canserve.cli.output import UNKNOWN, Progress, emit, quiet_option
from canserve.units import Bytes

if TYPE_CHECKING:
    from canserve.index.building import Outcome
    from canserve.index.message_building import Gained
    from canserve.index.sources import Project

SHOWN = 3

into_option = click.option(
    "--into",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Write there instead of your own folder.",
)


@click.group("index")
def command() -> None:
    """What every release of every engine supports; kept fresh here.

    \b
    canserve index update           read the releases that are new
    canserve index build vllm       read all of vllm's releases anew
    canserve index status
    """


@command.command("update")
@click.argument("projects", nargs=-1, metavar="[PROJECT]...")
@into_option
@quiet_option
def update(projects: tuple[str, ...], into: Path | None, quiet: bool) -> int:
    """Read the releases that came out since the index was made.

    What was read is kept at once: stopped at any moment, the next run goes on from there.
    """
    return run(_wanted(projects), into, quiet, fresh=False)


@command.command("build")
@click.argument("projects", nargs=-1, metavar="[PROJECT]...")
@into_option
@quiet_option
def build(projects: tuple[str, ...], into: Path | None, quiet: bool) -> int:
    """Read every release anew, whatever the index says of it; it takes minutes.

    Also what makes a damaged index good again. What an interrupted run has read is not read again.
    """
    return run(_wanted(projects), into, quiet, fresh=True)


@command.command("status")
def status() -> int:
    """Which index is used of each project, and of which date."""
    from canserve.index.sources import projects

    return show(projects())


def show(projects: Iterable[Project]) -> int:
    """One line a project; the exit code."""
    from canserve.index.places import loaded
    from canserve.index.shelf import ShelfError
    from canserve.render.escape import visible

    code = 0
    for project in projects:
        try:
            shelf = loaded(project.name)
            last = shelf.version(-1) if shelf.releases else "none"
            text = f"{len(shelf.releases)} releases, to {last}, of {shelf.built}"
        except ShelfError as error:
            text, code = str(error), UNKNOWN
        emit(f"{project.name}: {visible(text)}\n")
    return code


def run(projects: Sequence[Project], into: Path | None, quiet: bool, *, fresh: bool) -> int:
    """Bring the index of these projects up to date, or make it anew; the exit code."""
    from canserve.index.building import Order, make_all
    from canserve.index.message_building import update as update_messages
    from canserve.index.places import forget, user_folder
    from canserve.probes.build import BuildOptions

    code = 0
    with Progress(quiet) as progress:
        order = Order(into or user_folder(), fresh, into is not None, progress)
        try:
            for outcome in make_all(projects, BuildOptions(tell=progress), order):
                emit(_line(outcome))
                code = code or _code(outcome)
            for gained in update_messages(projects, BuildOptions(tell=progress), order):
                emit(_messages_line(gained))
        except KeyboardInterrupt:
            click.echo("stopped; the index is as it was, and the next run goes on from here", err=True)
            raise
        finally:
            forget()
    return code


def _wanted(names: Iterable[str]) -> list[Project]:
    from canserve.index.sources import projects

    known = {project.name: project for project in projects()}
    for name in names:
        if name not in known:
            near = nearest(name, known)
            raise click.UsageError(
                f"There is no index of {name!r}.{near} There is one of: {', '.join(known)}."
            )
    chosen = set(names) or set(known)
    return [project for name, project in known.items() if name in chosen]


def _code(outcome: Outcome) -> int:
    return UNKNOWN if outcome.failed or outcome.lacking or outcome.odd else 0


def _line(outcome: Outcome) -> str:
    """One line a project, and one for what could not be had or understood."""
    from canserve.render.escape import visible

    lines = []
    if outcome.failed is not None:
        lines.append(f"the package index could not be asked: {outcome.failed.why}")
    else:
        shelf = outcome.shelf
        newest = "" if shelf is None or not shelf.releases else f", to {shelf.version(-1)}"
        count = 0 if shelf is None else len(shelf.releases)
        what = "nothing new"
        if outcome.path is not None:
            what = f"{outcome.read} read, written to {outcome.path}"
        elif outcome.lacking:
            what = f"not finished: {outcome.read} read, which the next run need not read again"
        cost = outcome.cost
        over = f"; {Bytes(cost.bytes)} in {cost.requests} requests" if cost.requests else ""
        lines.append(f"{count} releases{newest}; {what}{over}")
    for kind, found in (("could not be had", outcome.lacking), ("not understood", outcome.odd)):
        for version, why in list(found.items())[:SHOWN]:
            lines.append(f"{version} {kind}: {why}")
        if len(found) > SHOWN:
            lines.append(f"{len(found) - SHOWN} more {kind}")
    return "".join(f"{outcome.project}: {visible(line, 300)}\n" for line in lines)


def _messages_line(gained: Gained) -> str:
    """One line of what `diagnose` knows of a project's messages, and one for what could not be read."""
    from canserve.render.escape import visible

    what = f"{gained.read} releases read, {gained.new} messages more" if gained.read else "nothing new"
    lines = [what] + [f"{name} not read: {why}" for name, why in list(gained.troubles.items())[:SHOWN]]
    return "".join(f"messages of {gained.project}: {visible(line, 300)}\n" for line in lines)
