"""Candidates as a page: the best first, what decides each, and what would have to travel; what was read folded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from canserve.api.candidates import Candidate, CandidatesReport
from canserve.render.candidates_text import amount, listed, told, travelling, with_needs
from canserve.render.html.findings import findings
from canserve.render.html.frame import advised, document, folded, named, notes, said, text, top
from canserve.render.text import describe
from canserve.verdict import Yes, word


def candidates_page(report: CandidatesReport) -> str:
    """The page."""
    title = f"{report.model.subject} on {', '.join(report.on)}"
    return document(f"{word(report.verdict)}: {title}", _body(report, title))


def _body(report: CandidatesReport, title: str) -> Iterator[str]:
    best = report.candidates[0] if report.candidates else None
    decides = best is not None and word(best.verdict) == word(report.verdict)
    lead = (
        f"{best.offer.target}: {_because(best)}" if best is not None and decides else report.verdict.because
    )
    yield top(
        report.verdict if best is None or not decides else with_needs(best),
        title,
        lead,
        (describe(report.model),),
    )
    if report.candidates:
        yield from _table(report.candidates)
    yield named((f"weights to {name}", f"{amount(way)}: {way.why}") for name, way in report.weights)
    for number, candidate in enumerate(report.candidates):
        yield from _card(number, candidate)
    yield folded(_counted(report.without_engine, "without an engine"), _names(report.without_engine))
    yield folded(_counted(report.left_out, "not read, as there were too many"), _names(report.left_out))
    if report.unheard:
        rows = "".join(f"<li>{text(line)}</li>" for line in report.unheard)
        yield f"<h2>Not listed</h2><ul>{rows}</ul>"
    cost = report.cost
    yield "<footer>"
    if cost.requests:
        yield named([("read over the network", f"{cost.bytes:,} bytes in {cost.requests} requests")])
    yield "</footer>"


def _table(candidates: Sequence[Candidate]) -> Iterator[str]:
    yield '<h2>Candidates, the best first</h2><table class="stack"><thead><tr><th scope="col">verdict</th>'
    yield '<th scope="col">build</th><th scope="col">because</th><th scope="col">what would travel</th></tr></thead><tbody>'
    for number, one in enumerate(candidates):
        yield f"<tr><td>{said(word(one.verdict))}</td>"
        yield f'<th scope="row"><a href="#c{number}">{text(one.offer.target)}</a></th>'
        yield f"<td>{text(_because(one))}</td><td>{text(travelling(one))}</td></tr>"
    yield "</tbody></table>\n"


def _because(one: Candidate) -> str:
    """What decides it, in short."""
    if isinstance(one.verdict, Yes):
        count = len(one.deciding.findings)
        return f"all {count} checks" if count > 1 else one.verdict.because
    return f"{one.blocking}: {one.verdict.because}" if one.blocking else one.verdict.because


def _card(number: int, one: Candidate) -> Iterator[str]:
    yield f'<section class="card" aria-labelledby="c{number}">'
    yield f'<h2 id="c{number}">{said(word(one.verdict))} {text(one.offer.target)}</h2>'
    yield f'<p>{text(told(one))}</p><p class="soft">{text(travelling(one))}</p>'
    for report in one.reports:
        if len(one.reports) > 1:
            yield f"<h3>{said(word(report.verdict))} on {text(report.machine or 'its machines')}</h3>"
        if not report.findings:
            yield f"<p>{text(report.verdict.because)}</p>{advised(report.verdict)}"
        yield from findings(report.findings, ((skip.check, skip.because) for skip in report.skipped))
        yield notes(report.notes)
    yield "</section>\n"


def _counted(names: Sequence[str], what: str) -> str:
    return f"{len(names)} {what}"


def _names(names: Sequence[str]) -> str:
    return f"<p>{text(listed(names, whole=True), 1 << 16)}</p>" if names else ""
