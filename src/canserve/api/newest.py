"""Which release should I use? Every engine's releases, judged from the index alone, newest first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from canserve.api import BuildReport, Judged, Options, judge, with_transformers
from canserve.checks.case import Wish
from canserve.facts import Fact, Known, Missing
from canserve.index.rebuild import NOT_HELD, build_at
from canserve.index.runs import Release, column_of, settled
from canserve.index.since import LISTED, Question, Since, Stretch, left_out, since
from canserve.index.watched import Indexed
from canserve.subjects.build import NOT_ASKED, Build
from canserve.subjects.model import Model
from canserve.trees.tree import Cost
from canserve.verdict import Finding, Skipped, Unknown, Yes, word

if TYPE_CHECKING:
    from canserve.checks.reader import Check
    from canserve.index.shelf import Shelf
    from canserve.subjects.machine import Machine

MOST = 40
"""Releases of one engine that are judged in full before the best so far is taken."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be served, where and how."""

    model: Model
    machines: tuple[Machine, ...]
    on: str | None
    wish: Wish
    options: Options


def newest_suitable(wanted: Wanted) -> tuple[BuildReport, ...]:
    """One report an engine: its newest release that says yes, else the best there is and why it is no better.

    Suitable ones come first.
    """
    from canserve.index import projects, release_history

    history = release_history()
    recipe = wanted.wish.recipe
    meant = recipe.engine if recipe is not None else None
    engines = [engine for engine in projects() if meant is None or engine == meant]
    shelves = [shelf for engine in engines if (shelf := history.shelf(engine)) is not None]
    days = _days()
    reports = [_of_engine(wanted, shelf, days) for shelf in shelves if shelf.releases]
    return tuple(sorted(reports, key=lambda report: _FIRST.index(word(report.verdict))))


_FIRST = ("yes", "unknown", "no")


def _days() -> dict[str, str]:
    from canserve.index import release_history
    from canserve.index.names import Names

    return dict(Names(release_history(), ()).days)


def _of_engine(wanted: Wanted, shelf: Shelf, days: dict[str, str]) -> BuildReport:
    column = column_of(shelf)
    asked = Question(wanted.model, wanted.wish, days, tuple(_more(wanted.model)))
    found = since(
        asked,
        column,
        Indexed(shelf, left_out(wanted.model, weights=True), partial(_beside, wanted.options.transformers)),
    )
    passed_over: list[BuildReport] = []
    for release in _usable(found)[:MOST]:
        report = _judged(wanted, shelf, release)
        if isinstance(report.verdict, Yes):
            return replace(report, notes=(*report.notes, *_notes(found, release, passed_over)))
        passed_over.append(report)
    if not passed_over:
        report = _judged(wanted, shelf, _best(found))
        return replace(report, notes=(*report.notes, *_without(found)))
    best = next((report for report in passed_over if isinstance(report.verdict, Unknown)), passed_over[0])
    return replace(best, notes=(*best.notes, *_none(found, passed_over, best)))


def _more(model: Model) -> Iterator[Check]:
    """What else is cheap to ask of every release: methods come and go."""
    from canserve.checks.quantization.registered import REGISTERED

    if isinstance(model.quantization, Known) and model.quantization.value is not None:
        yield REGISTERED


def _usable(found: Since) -> list[Release]:
    """Releases that pass the gates, in the order in which they are worth judging: newest first.

    Those whose transformers is younger than the releases that followed come last.
    """
    tried = _newest_first(found, (s for s in found.usable if not s.answer.ahead))
    return tried + _newest_first(found, (s for s in found.usable if s.answer.ahead))


def _best(found: Since) -> Release:
    """The release that stands for all where none passes the gates.

    The newest that lists the model, or of which nothing worse can be told; else the newest of all: what could
    not be told of an old release is no reason to name that one.
    """
    newest = found.stretches[-1]
    for stretches in (
        [
            s
            for s in found.stretches
            if s.answer.usable == "unknown" and (s is newest or s.answer.way in LISTED)
        ],
        [s for s in found.stretches if s.answer.way not in ("none", "unknown")],
    ):
        if stretches:
            return _newest_first(found, stretches)[0]
    return _newest_first(found, found.stretches)[0]


def _newest_first(found: Since, stretches: Iterable[Stretch]) -> list[Release]:
    """Their releases; pre-releases and withdrawn releases come after all others."""
    releases = found.column.releases
    at = {release.version: position for position, release in enumerate(releases)}
    spans = [range(at[s.run.first.version], at[s.run.last.version] + 1) for s in stretches]
    chosen = [releases[position] for span in spans for position in span]
    return sorted(chosen, key=lambda release: (settled(release), at[release.version]), reverse=True)


def _beside(version: str | None, build: Fact[Build]) -> Fact[Build]:
    """The build as if this transformers were installed beside it, if one was named."""
    if version is None or isinstance(build, Missing):
        return build
    return Known(with_transformers(build.value, version), build.evidence)


def _judged(wanted: Wanted, shelf: Shelf, release: Release) -> BuildReport:
    from canserve.probes.build import Reading

    position = next(at for at, row in enumerate(shelf.releases) if row["version"] == release.version)
    build = _beside(wanted.options.transformers, build_at(shelf, position))
    target = f"{shelf.project}=={release.version}"
    read = build.value if isinstance(build, Known) else build
    reading = Reading(target, read, Cost(), _told(release))
    report = judge(Judged(wanted.model, reading, wanted.machines, wanted.on, wanted.wish))
    return replace(held(report), indexed=shelf.built)


def _told(release: Release) -> tuple[str, ...]:
    return ("its authors have withdrawn this release (yanked)",) if release.yanked else ()


def held(report: BuildReport) -> BuildReport:
    """Checks that ask for what the index does not hold are not judged here, and said so."""
    findings: list[Finding] = []
    skipped = [replace(skip, because=_lacks(skip.because)) for skip in report.skipped]
    for finding in report.findings:
        because = finding.verdict.because
        if isinstance(finding.verdict, Unknown) and because.startswith((NOT_HELD, NOT_ASKED.why)):
            skipped.append(Skipped(finding.check, finding.about, _lacks(because)))
        else:
            findings.append(finding)
    return replace(report, findings=tuple(findings), skipped=tuple(skipped))


def _lacks(because: str) -> str:
    """The reason in terms of the index, where it is that the index does not hold something."""
    if NOT_HELD not in because and NOT_ASKED.why not in because:
        return because
    return "not judged: the index does not hold what this check reads; --build reads the release itself"


def _notes(found: Since, chosen: Release, passed_over: Sequence[BuildReport]) -> Iterator[str]:
    """How the release was chosen."""
    yield _served(found)
    if passed_over:
        first = passed_over[0]
        more = f" and {len(passed_over) - 1} more" if passed_over[1:] else ""
        yield f"passed over for it: {first.target}{more} ({word(first.verdict)}: {_reason(first)})"
    newest = found.column.releases[-1]
    if not passed_over and newest != chosen:
        yield f"the newest release is {newest.version}; {_why_not(found, newest)}"


def _why_not(found: Since, newest: Release) -> str:
    last = found.stretches[-1]
    if not settled(newest) and last.answer.usable == "yes":
        return "it is a pre-release or was withdrawn"
    return last.answer.because or "it does not serve the architecture"


def _reason(report: BuildReport) -> str:
    decided = next((f for f in report.findings if f.verdict == report.verdict), None)
    return f"{decided.check}: {report.verdict.because}" if decided else report.verdict.because


def _served(found: Since) -> str:
    """Since when the engine serves it at all."""
    runs = found.together(s for s in found.usable if not s.answer.ahead)
    if not runs:
        return "no release in the index surely serves the architecture"
    first = runs[0].first
    gaps = ", with gaps" if len(runs) > 1 else ""
    return f"the architecture is served since {first.version} ({first.date}){gaps}"


def _none(found: Since, judged: Sequence[BuildReport], best: BuildReport) -> Iterator[str]:
    """What the best of those that pass the gates stands for, where none says yes."""
    yield _served(found)
    if len(judged) > 1:
        yield f"none of the {len(judged)} likeliest releases says yes; {best.target} is the best of them"


def _without(found: Since) -> Iterator[str]:
    """What the release that is named stands for, where none passes the gates."""
    releases, unsure = (
        found.column.releases,
        found.together(s for s in found.stretches if s.answer.usable == "unknown"),
    )
    if not unsure:
        yield f"no release from {releases[0].version} to {releases[-1].version} serves the architecture"
        return
    told = ", ".join(
        run.first.version if run.count == 1 else f"{run.first.version} to {run.last.version}"
        for run in unsure
    )
    yield f"no release surely serves the architecture; of {told} it could not be told"
