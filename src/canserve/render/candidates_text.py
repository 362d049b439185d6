"""Candidates as text: the best first, each with what decides and what would have to travel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from canserve.api.candidates import Candidate, CandidatesReport, needs
from canserve.facts import Known, Missing
from canserve.plan.offers.offer import Source
from canserve.plan.offers.travel import Travel
from canserve.render.page import STYLES, Cell, Look, Page, Row
from canserve.render.text import advice_rows, describe
from canserve.verdict import Verdict, Yes, word

_VERDICT = 9
"""Width of the verdict column: ``unknown`` and a gap."""
_SHOWN = 8
"""Names of a list that are shown unless all are asked for."""
SAID: dict[Source, str] = {
    "named": "named",
    "running": "running",
    "image": "an image",
    "environment": "an environment",
    "file": "in the file",
    "tag": "a tag",
    "search": "found by searching",
    "index": "a release, judged from the release index",
}
"""Where a candidate was heard of, in words."""


def candidates_text(report: CandidatesReport, look: Look, *, whole: bool = False) -> str:
    """The whole report. ``whole``: every name of long lists."""
    page = Page(look)
    page.add(Row(f"{report.model.subject} on {', '.join(report.on)}", style="bold"))
    page.add(Row(describe(report.model), indent=2))
    page.add(*_weights(report))
    for number, candidate in enumerate(report.candidates, 1):
        page.blank()
        page.add(*_candidate(number, candidate, len(str(len(report.candidates))) + 1))
    page.blank()
    if not report.candidates:
        page.add(Row("no candidate was found", style="bold"))
    page.add(*_rest(report, whole))
    return page.render()


def _weights(report: CandidatesReport) -> Iterable[Row]:
    groups: dict[Travel, list[str]] = {}
    for name, travel in report.weights:
        groups.setdefault(travel, []).append(name)
    for travel, names in groups.items():
        yield Row(f"{', '.join(names)}: {amount(travel)}: {travel.why}", label="weights to ", indent=2)


def _candidate(number: int, candidate: Candidate, width: int) -> Iterable[Row]:
    verdict = candidate.verdict
    lead = width + _VERDICT
    cells = (Cell(str(number), width), Cell(word(verdict), _VERDICT, STYLES[word(verdict)]))
    yield Row(candidate.offer.target, cells, style="bold")
    yield Row(told(candidate), indent=lead)
    yield Row(travelling(candidate), indent=lead)
    if not isinstance(verdict, Yes):
        check = candidate.blocking
        yield Row(verdict.because, indent=lead, label=f"{check}: " if check else "")
    yield from advice_rows(with_needs(candidate), lead)


def with_needs(candidate: Candidate) -> Verdict:
    """Its verdict; a yes with the conditions of every finding."""
    verdict = candidate.verdict
    return replace(verdict, needs=needs(candidate)) if isinstance(verdict, Yes) else verdict


def told(candidate: Candidate) -> str:
    """Engine and version, where it was heard of, how old it is."""
    build, offer = candidate.build, candidate.offer
    if isinstance(build, Missing):
        engine = "not read"
    else:
        version = build.identity.version
        engine = (
            f"{build.identity.engine} {version.value if isinstance(version, Known) else '(no version told)'}"
        )
    made = f"of {candidate.date[:10]}" if candidate.date else None
    also = f"also {', '.join(offer.also)}" if offer.also else None
    return ", ".join(part for part in (engine, SAID[offer.source], made, offer.note, also) if part)


def travelling(candidate: Candidate) -> str:
    """``on head; to second: 19.8 GB``."""
    here = [name for name, travel in candidate.travel if travel.there]
    groups: dict[str, list[str]] = {}
    for name, travel in candidate.travel:
        if not travel.there:
            groups.setdefault(f"{amount(travel)} ({travel.why})", []).append(name)
    parts = [f"on {', '.join(here)}"] if here else []
    parts += [f"to {', '.join(names)}: {said}" for said, names in groups.items()]
    return "; ".join(parts)


def amount(travel: Travel) -> str:
    """``19.8 GB``, ``nothing``, ``4 GB to 20 GB``, ``at least 4 GB``, ``not known``."""
    if travel.exact is not None:
        return str(travel.exact) if travel.exact.count else "nothing"
    if travel.most is None:
        return f"at least {travel.least}" if travel.least.count else "not known"
    return f"{travel.least} to {travel.most}" if travel.least.count else f"at most {travel.most}"


def _rest(report: CandidatesReport, whole: bool) -> Iterable[Row]:
    lists = (
        ("no engine is in ", report.without_engine),
        ("not read, as there were too many: ", report.left_out),
    )
    for label, names in lists:
        if names:
            yield Row(listed(names, whole), label=label)
    for line in report.unheard:
        yield Row(line, label="not listed: ")


def listed(names: Sequence[str], whole: bool) -> str:
    """Names side by side, long lists cut with their number."""
    shown = names if whole or len(names) <= _SHOWN else names[:_SHOWN]
    more = f" and {len(names) - len(shown)} more" if len(shown) < len(names) else ""
    return f"{', '.join(shown)}{more}"
