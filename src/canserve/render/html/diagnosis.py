"""A diagnosis as a page: what it came to and why, the line that tells, where each process stands; the rest folded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from canserve.render.diagnosis_text import where
from canserve.render.html.frame import document, folded, named, said, text
from canserve.subjects.diagnosis import Diagnosis, Said, Standing, State
from canserve.subjects.progress import WORDS

KINDS: dict[State, str] = {
    "failed": "no",
    "stalled": "no",
    "starting": "unknown",
    "stopped": "unknown",
    "unknown": "unknown",
    "serving": "yes",
}
"""The verdict that a state looks like."""
MOST = 500
"""Lines and processes that are shown; JSON has all."""


def diagnosis_page(found: Diagnosis) -> str:
    """The page."""
    return document(f"{found.state}: {_title(found)}", _body(found))


def _title(found: Diagnosis) -> str:
    who = " ".join(filter(None, (found.engine, found.engine_version))) or "an engine that is not known"
    kind = f", {found.kind}" if found.kind else ""
    return f"{who}{kind}{f' ({found.name})' if found.name else ''}"


def _body(found: Diagnosis) -> Iterator[str]:
    kind = KINDS[found.state]
    yield f'<header class="top {kind}"><p class="word {kind}">{said(kind, found.state)}</p>'
    yield f'<h1>{text(_title(found))}</h1><p class="lead">{text(found.because)}</p>'
    if found.fix:
        yield f'<p class="advice"><b>fix:</b> {text(found.fix)}</p>'
    if found.phase:
        yield f'<p class="soft">it had come to: {text(WORDS.get(found.phase, found.phase))}</p>'
    yield "</header>\n"
    if found.cause is not None:
        yield f'<h2>The line that tells</h2><p class="soft">{text(where(found.cause))}</p>'
        yield f'<pre class="line">{text(found.cause.text)}</pre>'
    if found.next_look:
        yield f"<h2>What would tell more</h2>{_list(map(text, found.next_look))}"
    yield from _standings(found.standings)
    yield folded(_counted(found.consequences, "only a consequence"), _lines(found.consequences))
    yield folded(_counted(found.also, "that may matter too"), _lines(found.also))
    yield folded(
        f"{len(found.unread)} not read", _list(map(text, found.unread[:MOST])) if found.unread else ""
    )
    read = "1 line" if found.lines == 1 else f"{found.lines:,} lines"
    yield f"<footer>{named((('read', read), ('known from', found.source)))}</footer>"


def _standings(standings: Sequence[Standing]) -> Iterator[str]:
    if not standings:
        return
    yield '<h2>Where each process stands</h2><table class="stack"><thead><tr><th scope="col">process</th>'
    yield '<th scope="col">came to</th><th scope="col">stands at</th><th scope="col">last line</th></tr></thead><tbody>'
    for one in standings[:MOST]:
        rank = f", rank {one.rank}" if one.rank is not None else ""
        phase = WORDS.get(one.phase, one.phase) if one.phase else "no phase of a start"
        yield f'<tr><th scope="row">{text(one.file)} {text(one.process or "main")}{rank}</th>'
        yield f'<td data-h="came to">{text(phase)}</td><td>{text(one.place or "")}</td>'
        yield f"<td>{text(one.last.text) if one.last is not None else ''}</td></tr>"
    yield "</tbody></table>"
    if (more := len(standings) - MOST) > 0:
        yield f'<p class="soft">and {more} more: --format json has them</p>'


def _counted(lines: Sequence[Said], what: str) -> str:
    return f"1 line {what}" if len(lines) == 1 else f"{len(lines)} lines {what}"


def _lines(lines: Sequence[Said]) -> str:
    if not lines:
        return ""
    rows = "".join(f"<li>{text(where(one))}: <code>{text(one.text)}</code></li>" for one in lines[:MOST])
    return f'<ol class="looks">{rows}</ol>'


def _list(rows: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{row}</li>' for row in rows)}</ul>"
