"""A verification as text and as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from canserve.api.verifying import VerifyReport
from canserve.checks.served import rates
from canserve.checks.served.words import number
from canserve.facts import Known
from canserve.render.escape import code, markdown
from canserve.render.markdown import findings_markdown, skipped_markdown
from canserve.render.page import STYLES, Cell, Look, Page, Row
from canserve.render.text import findings_rows, skipped_rows
from canserve.subjects.served import Speeds, Step
from canserve.verdict import Yes, word

_NAME = 16
"""Width of the column that names a figure."""


def verify_text(report: VerifyReport, look: Look) -> str:
    """The verdict, what is wrong, what is right, and how fast it is."""
    page = Page(look)
    verdict = word(report.verdict)
    page.add(Row(cells=(Cell(verdict, 9, STYLES[verdict]), Cell(heading(report), 0, "bold")), cut=True))
    page.add(*findings_rows(report.served.subject, report.findings, look))
    page.add(*skipped_rows((skip.check, skip.because) for skip in report.skipped))
    page.add(*(Row(note, (Cell("note", 9),), indent=2) for note in report.notes))
    if report.speeds is not None:
        page.blank()
        page.add(*(Row(text, (Cell(name, _NAME, "bold"),), indent=2) for name, text in figures(report)))
    return page.render()


def heading(report: VerifyReport) -> str:
    """Address, model and context."""
    served = report.served
    named = f": {served.model}" if served.model else ""
    context = f", {served.context.value} tokens" if isinstance(served.context, Known) else ""
    return f"{served.subject}{named}{context}"


def figures(report: VerifyReport) -> Iterator[tuple[str, str]]:
    """What was measured, a line each: its name, and median (least to most, samples)."""
    speeds = report.speeds
    if speeds is None:
        return
    bound = ""
    if isinstance(report.served.expected, Known):
        plan = report.served.expected.value
        bound = f"; planned {number(plan.decode[1])} to {number(plan.decode[2])}, at most {number(plan.decode_bound)}"
    if (found := rates.decode(speeds)) is not None:
        yield "decode", f"{_spread(found, 'tok/s')}{bound}"
    if (found := rates.spread(rates.between(speeds.alone))) is not None:
        yield "between pieces", _spread(found, "ms", 1000)
    if (found := rates.first(speeds)) is not None:
        yield "first token", _spread(found, "ms", 1000)
    if (found := rates.prefill(speeds)) is not None:
        yield "prefill", f"{_spread(found, 'tok/s')}{_planned(report)}"
    yield from _ramp(speeds)


def _planned(report: VerifyReport) -> str:
    """What the plan says of prefill."""
    expected = report.served.expected
    prefill = expected.value.prefill if isinstance(expected, Known) else None
    return "" if prefill is None else f"; planned {number(prefill[1])} to {number(prefill[2])}"


def _ramp(speeds: Speeds) -> Iterator[tuple[str, str]]:
    best = rates.top(speeds.ramp)
    for step in speeds.ramp:
        mark = ", the most" if step is best and len(speeds.ramp) > 1 else ""
        yield f"{step.concurrency} at once", f"{_step(step)}{mark}"
    if speeds.ramp:
        yield "the ramp ended", speeds.ended


def _step(step: Step) -> str:
    firsts = [seconds for reply in step.replies if (seconds := rates.first_token(reply)) is not None]
    made, first = rates.throughput(step), rates.spread(firsts)
    said = [f"{number(made)} tok/s"] if made is not None else ["nothing"]
    said += [f"first token {number(first.median * 1000)} ms"] if first is not None else []
    said += [f"{rates.failed(step)} not answered"] if rates.failed(step) else []
    return ", ".join(said)


def _spread(found: rates.Spread, unit: str, factor: float = 1) -> str:
    median, low, high = (number(value * factor) for value in (found.median, found.low, found.high))
    return f"{median} {unit} ({low} to {high}, {found.count} samples)"


def verify_markdown(report: VerifyReport, explain: frozenset[str] = frozenset()) -> str:
    """The same for an issue or a pull request."""
    return "\n".join(_lines(report, explain)) + "\n"


def _lines(report: VerifyReport, explain: frozenset[str]) -> Iterable[str]:
    yield f"### {code(heading(report))}: {word(report.verdict)}"
    yield ""
    if not isinstance(report.verdict, Yes):
        yield f"{markdown(report.verdict.because)}"
        yield ""
    yield from findings_markdown(report.findings, explain)
    yield from skipped_markdown((skip.check, skip.because) for skip in report.skipped)
    yield from (f"- note: {markdown(note)}" for note in report.notes)
    rows = list(figures(report))
    if rows:
        yield from ("", "| measured | |", "|---|---|")
        yield from (f"| {markdown(name)} | {markdown(text)} |" for name, text in rows)
