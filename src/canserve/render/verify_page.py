"""A verification as one HTML page that needs nothing else: findings, figures and plots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from canserve.api.verifying import VerifyReport
from canserve.checks.served import rates
from canserve.render.escape import visible
from canserve.render.plot import STYLE as PLOT_STYLE
from canserve.render.plot import Point, plot
from canserve.render.text import by_advice
from canserve.render.verify_text import figures, heading
from canserve.subjects.served import Speeds
from canserve.verdict import Finding, No, Unknown, word

_HEAD = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:; \
base-uri 'none'; form-action 'none'">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>{style}</style>
"""
_STYLE = """
:root { --page: #fafaf8; --card: #fff; --text: #1d1f21; --soft: #62676d; --line: #e3e3de; --bar: #1b8f8a;
  --yes: #1a7f37; --no: #b42318; --unknown: #8a6100; }
@media (prefers-color-scheme: dark) { :root { --page: #121517; --card: #191d20; --text: #e7e9ea; --soft: #a2a9af;
  --line: #2b3135; --bar: #3fb5ac; --yes: #5fc67a; --no: #ff8a7d; --unknown: #e0b050; } }
body { margin: 0 auto; max-width: 64rem; padding: 1.5rem; background: var(--page); color: var(--text);
  font: 15px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif; }
h1 { font-size: 1.4rem; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .35rem .8rem .35rem 0; border-top: 1px solid var(--line);
  overflow-wrap: anywhere; }
td:first-child, .verdict { font-weight: 600; white-space: nowrap; }
.yes { color: var(--yes); } .no { color: var(--no); } .unknown { color: var(--unknown); }
.soft, details { color: var(--soft); } details div { font-size: .9em; overflow-wrap: anywhere; }
.plots { display: grid; gap: 1.5rem; }
"""


def verify_page(report: VerifyReport) -> str:
    """The page."""
    verdict = word(report.verdict)
    title = _text(f"{verdict}: {heading(report)}")
    return "".join(
        (
            _HEAD.format(title=title, style=_STYLE + PLOT_STYLE),
            f'<h1><span class="{verdict}">{verdict}</span> {_text(heading(report))}</h1>',
            *_findings(report),
            *_speeds(report),
            "</html>\n",
        )
    )


def _text(text: str) -> str:
    return escape(visible(text))


def _findings(report: VerifyReport) -> Iterator[str]:
    yield "<h2>What was judged</h2><table><tr><th>verdict</th><th>check</th><th>because</th></tr>"
    for finding in (finding for group in by_advice(report.findings) for finding in group):
        verdict = word(finding.verdict)
        yield f'<tr><td class="{verdict}">{verdict}</td><td>{_text(finding.check)}</td><td>'
        yield f"{_text(finding.verdict.because)}{_advice(finding)}{_evidence(finding)}</td></tr>"
    for skip in report.skipped:
        yield f'<tr class="soft"><td>skipped</td><td>{_text(skip.check)}</td><td>{_text(skip.because)}</td></tr>'
    yield "</table>"
    yield from (f"<p>{_text(note)}</p>" for note in report.notes)


def _advice(finding: Finding) -> str:
    match finding.verdict:
        case No(fix=text):
            return f"<br>fix: {_text(text)}"
        case Unknown(ask=text):
            return f"<br>ask: {_text(text)}"
        case _:
            return ""


def _evidence(finding: Finding) -> str:
    rows = "".join(f"<div>{_text(look.how)}: {_text(look.saw)}</div>" for look in finding.evidence[:20])
    return f"<details><summary>what was asked</summary>{rows}</details>" if rows else ""


def _speeds(report: VerifyReport) -> Iterator[str]:
    if report.speeds is None:
        return
    yield "<h2>How fast it is</h2><table>"
    yield from (f"<tr><td>{_text(name)}</td><td>{_text(text)}</td></tr>" for name, text in figures(report))
    yield "</table>"
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
