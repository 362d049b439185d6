"""``canserve verify``: whether an endpoint really serves."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from canserve.cli.live import Live
from canserve.cli.names import nearest
from canserve.cli.options import file_option, seconds_option
from canserve.cli.output import EXIT, emit, format_option, look, quiet_option, remark
from canserve.cli.runs import Where, on_options, sought
from canserve.verdict import word

if TYPE_CHECKING:
    from canserve.api.verifying import VerifyReport
    from canserve.trees.secret import Secret

KEY = "CANSERVE_API_KEY"
"""The environment variable that holds a key."""
EXPECTABLE = ("tools", "reasoning", "schema", "logprobs", "metrics", "dummy")


def explained(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Names of checks of an endpoint, or ``all``."""
    del ctx
    if not value:
        return value
    from canserve.checks.served import CHECKS

    known = ("all", *(check.name for check in CHECKS))
    for name in value:
        if name not in known:
            raise click.BadParameter(
                f"no check of an endpoint is called {name!r}.{nearest(name, known)}", param=param
            )
    return value


@click.command("verify")
@click.argument("url", metavar="URL|RUN")
@on_options
@click.option(
    "--model", metavar="NAME", help="The model's name in requests; without it the first that is listed."
)
@file_option("--plan", "A saved plan to compare with.")
@click.option(
    "--expect",
    multiple=True,
    type=click.Choice(EXPECTABLE),
    help="A no, where it is not offered; dummy: its weights are none.",
)
@click.option(
    "--context",
    type=click.IntRange(1),
    metavar="TOKENS",
    help="Of the longest sequence, where the server does not say it.",
)
@click.option("--quick", is_flag=True, help="Two minutes at most: fewer samples, one long prompt, no ramp.")
@click.option(
    "--time", "seconds", type=click.FloatRange(1), metavar="SECONDS", help="For everything.  [default: 600]"
)
@click.option(
    "--patience", type=click.FloatRange(0.1), metavar="SECONDS", help="For one answer.  [default: 60]"
)
@seconds_option("--wait", "For a server that is still starting.", default=0)
@file_option("--key-file", f"Holds the API key; or {KEY} in the environment.")
@click.option(
    "--ca", type=click.Path(path_type=Path), metavar="FILE", help="Certificate authorities to trust."
)
@file_option("--samples", "Judge speeds from this file of canserve, guidellm or bench serve.")
@file_option("--export", "Keep raw samples in the form of bench serve, a line for each step.")
@click.option(
    "--explain",
    multiple=True,
    callback=explained,
    metavar="CHECK|all",
    help="Show each request and what came.",
)
@format_option("text", "json", "md", "html", "junit")
@quiet_option
def command(**chosen: Any) -> int:
    """Say whether an endpoint really serves.

    Judged: answers, reasoning, tools, long prompts, load, speed.

    URL is that of an OpenAI-compatible server, with or without /v1; RUN is a deployment, asked where it serves
    and compared with its own plan. It is asked questions with known answers, alone and many at once, streamed
    and not, and its speed is measured; nothing but requests reaches it.

    \b
    canserve verify 4f2a9c1d
    canserve verify http://127.0.0.1:8000
    canserve verify http://10.0.0.1:8000 --plan plan.json --expect tools
    canserve verify https://models.example --model tiny --key-file key.txt --quick
    """
    return run(Wanted(**chosen))


@dataclass(frozen=True, slots=True)
class Wanted:
    """The options of one call."""

    url: str
    where: Where
    model: str | None
    plan: Path | None
    expect: tuple[str, ...]
    context: int | None
    quick: bool
    seconds: float | None
    patience: float | None
    wait: float
    key_file: Path | None
    ca: Path | None
    samples: Path | None
    export: Path | None
    explain: tuple[str, ...]
    form: str
    quiet: bool


def run(wanted: Wanted) -> int:
    """Ask, judge, print, and give the exit code."""
    from canserve.api.verifying import VerifyWishes, verify
    from canserve.api.verifying_runs import verify_run
    from canserve.verify.ledger import Ledger

    key = _key(wanted.key_file)
    with Live(wanted.quiet) as progress:
        ledger = None
        if not wanted.quiet:
            ledger = Ledger()
            progress.follow(ledger.now)
        wishes = VerifyWishes(
            wanted.model,
            wanted.plan,
            frozenset(wanted.expect),
            wanted.context,
            key,
            wanted.ca,
            wanted.quick,
            wanted.seconds,
            wanted.patience,
            wanted.wait,
            wanted.samples,
            progress=progress,
            ledger=ledger,
        )
        run_meant = sought(wanted.url, wanted.where)
        report = verify(wanted.url, wishes) if run_meant is None else verify_run(run_meant, wishes)
    emit(_rendered(report, wanted))
    if wanted.export is not None:
        from datetime import UTC, datetime

        from canserve.api.verifying import exported

        now = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
        wanted.export.write_text(exported(report, now), encoding="utf-8")
    if wanted.form == "text" and not wanted.explain:
        remark("--explain all shows every request and what came", wanted.quiet)
    return EXIT[word(report.verdict)]


def _key(path: Path | None) -> Secret | None:
    from canserve.api.verifying import key_of, read_key

    return read_key(path) if path is not None else key_of(os.environ.get(KEY, ""), KEY)


def _rendered(report: VerifyReport, wanted: Wanted) -> str:
    explain = frozenset(wanted.explain)
    if wanted.form == "json":
        from canserve.render.structure import to_json
        from canserve.render.verify_structure import verify_output

        return to_json(verify_output(report))
    if wanted.form == "html":
        from canserve.render.verify_page import verify_page

        return verify_page(report)
    if wanted.form == "junit":
        from canserve.render.junit import verify_junit

        return verify_junit(report)
    if wanted.form == "md":
        from canserve.render.verify_text import verify_markdown

        return verify_markdown(report, explain)
    from canserve.render.verify_text import verify_text

    return verify_text(report, look(explain))
