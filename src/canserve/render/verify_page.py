"""A verification as one HTML page that needs nothing else: findings, figures and plots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from canserve.api.verifying import VerifyReport
from canserve.checks.served import rates
from canserve.render.html.findings import findings
from canserve.render.html.frame import document, named, notes, top
from canserve.render.plot import STYLE, Point, plot
from canserve.render.verify_text import figures, heading
from canserve.subjects.served import Speeds
from canserve.verdict import word


def verify_page(report: VerifyReport) -> str:
    """The page."""
    return document(f"{word(report.verdict)}: {heading(report)}", _body(report), STYLE)


def _body(report: VerifyReport) -> Iterator[str]:
    yield top(report.verdict, heading(report), report.verdict.because)
    yield "<h2>What was judged</h2>"
    yield from findings(report.findings, ((skip.check, skip.because) for skip in report.skipped))
    yield notes(report.notes)
    if report.speeds is not None:
        yield f"<h2>How fast it is</h2>{named(figures(report))}"
        yield f'<div class="plots">{"".join(_plots(report.speeds))}</div>'


def _plots(speeds: Speeds) -> Iterable[str]:
    made = [
        Point(str(step.concurrency), rate, rate, rate)
        for step in speeds.ramp
        if (rate := rates.throughput(step)) is not None
    ]
    yield plot("Tokens a second of all streams, by streams at once", "tok/s", made)
    firsts = []
    for step in speeds.ramp:
        seconds = (rates.first_token(reply) for reply in step.replies)
        found = rates.spread(value for value in seconds if value is not None)
        if found is not None:
            low, median, high = (value * 1000 for value in (found.low, found.median, found.high))
            firsts.append(Point(str(step.concurrency), median, low, high))
    yield plot("Time to the first token, by streams at once: median, least to most", "ms", firsts)
    gaps = [gap * 1000 for gap in rates.between(speeds.alone[:1])]
    series = [Point(str(at + 1), gap, gap, gap) for at, gap in enumerate(gaps[:512])]
    yield plot("Time between pieces of one stream, one after the other", "ms", series)
