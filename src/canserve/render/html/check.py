"""A check as a page: which builds will serve the model, and why the others will not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from canserve.api import BuildReport, Report
from canserve.render.html.findings import findings, skips
from canserve.render.html.frame import advised, document, named, notes, said, text, top
from canserve.render.recipe_text import summary
from canserve.render.text import chosen, describe, in_short, own_skips, shared_skips
from canserve.verdict import word


def check_page(report: Report) -> str:
    """The page."""
    title = _title(report)
    return document(f"{word(report.verdict)}: {title}", _body(report, title))


def _title(report: Report) -> str:
    machines = dict.fromkeys(build.machine for build in report.builds if build.machine)
    where = f" on {', '.join(machines)}" if machines else ""
    return f"{report.model.subject}{where}"


def _body(report: Report, title: str) -> Iterator[str]:
    deciding = next((b for b in report.builds if word(b.verdict) == word(report.verdict)), None)
    lead = report.verdict.because if deciding is None else f"{deciding.target}: {in_short(deciding)}"
    recipe = summary(report.recipe) if report.recipe is not None else ""
    about = (describe(report.model), recipe, chosen(report) if report.chosen else "")
    yield top(report.verdict, title, lead, about)
    if len(report.builds) > 1:
        yield from _table(report.builds)
    shared = shared_skips(report) if len(report.builds) > 1 else ()
    for number, build in enumerate(report.builds):
        yield f'<section class="card" aria-labelledby="b{number}">'
        yield f'<h2 id="b{number}">{said(word(build.verdict))} {text(build.target)}</h2>'
        if not build.findings:
            yield f"<p>{text(build.verdict.because)}</p>{advised(build.verdict)}"
        yield from findings(build.findings, own_skips(build, shared))
        yield f"{notes(build.notes)}</section>\n"
    yield skips(shared)
    yield f"<footer>{notes(report.notes)}{_cost(report)}</footer>"


def _table(builds: Sequence[BuildReport]) -> Iterator[str]:
    yield '<h2>Builds</h2><table class="stack"><thead><tr><th scope="col">verdict</th><th scope="col">build</th>'
    yield '<th scope="col">because</th></tr></thead><tbody>'
    for number, build in enumerate(builds):
        yield f"<tr><td>{said(word(build.verdict))}</td>"
        yield f'<th scope="row"><a href="#b{number}">{text(build.target)}</a></th><td>{text(in_short(build))}</td></tr>'
    yield "</tbody></table>\n"


def _cost(report: Report) -> str:
    cost = report.cost
    return (
        named([("read over the network", f"{cost.bytes:,} bytes in {cost.requests} requests")])
        if cost.requests
        else ""
    )
