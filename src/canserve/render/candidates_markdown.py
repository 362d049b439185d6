"""Candidates as Markdown, for an issue: one table, then what decides each."""

from __future__ import annotations

from collections.abc import Iterable

from canserve.api.candidates import Candidate, CandidatesReport
from canserve.render.candidates_text import amount, listed, told, travelling, with_needs
from canserve.render.escape import code, markdown
from canserve.render.markdown import advice_markdown
from canserve.render.text import describe
from canserve.verdict import Yes, word


def candidates_markdown(report: CandidatesReport) -> str:
    """The whole report."""
    where = ", ".join(map(code, report.on))
    lines = [f"### {code(report.model.subject)} on {where}: {word(report.verdict)}", ""]
    lines += [markdown(describe(report.model)), ""]
    lines += [
        f"- weights to {code(name)}: {markdown(f'{amount(travel)}: {travel.why}')}"
        for name, travel in report.weights
    ]
    lines += ["", "| | verdict | build | what it is | travels |", "|---|---|---|---|---|"]
    lines += [_row(number, one) for number, one in enumerate(report.candidates, 1)]
    for number, one in enumerate(report.candidates, 1):
        lines += ["", *_candidate(number, one)]
    if report.without_engine:
        lines += ["", f"- no engine is in {markdown(listed(report.without_engine, whole=True))}"]
    if report.left_out:
        lines += ["", f"- not read, as there were too many: {markdown(listed(report.left_out, whole=True))}"]
    lines += [f"- not listed: {markdown(line)}" for line in report.unheard]
    return "\n".join(lines) + "\n"


def _row(number: int, candidate: Candidate) -> str:
    name = code(candidate.offer.target).replace("|", "\\|")  # inside a table even a code span needs it
    cells = (markdown(told(candidate)), markdown(travelling(candidate)))
    return f"| {number} | **{word(candidate.verdict)}** | {name} | {' | '.join(cells)} |"


def _candidate(number: int, candidate: Candidate) -> Iterable[str]:
    verdict = candidate.verdict
    yield f"#### {number}. {code(candidate.offer.target)}: {word(verdict)}"
    yield ""
    named = f"{code(candidate.blocking)}: " if candidate.blocking and not isinstance(verdict, Yes) else ""
    yield f"- **{word(verdict)}** {named}{markdown(verdict.because)}"
    yield from advice_markdown(with_needs(candidate))
