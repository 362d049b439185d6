"""Which releases serve a name, as text and as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from packaging.version import Version

from canserve.api.released import SinceReport
from canserve.index.runs import Release, Run, settled
from canserve.index.since import Answers, Since, Stretch
from canserve.render.escape import code, markdown
from canserve.render.matrix_text import dated
from canserve.render.page import STYLES, Cell, Look, Page, Row

_LABEL = 10
_INDENT = 2
WAYS = {
    "native": "",
    "converted": "by suffix conversion to {}",
    "fallback": "through {}",
    "remote": "through {} and the repository's own code",
    "gguf": "",
    "converter": "",
    "unknown": "",
    "none": "",
}


def since_text(report: SinceReport, look: Look) -> str:
    """Each subject, then each engine: first and last release, what is listed, what can be served and how."""
    page = Page(look)
    for answers in report.answers:
        if len(report.names) > 1:
            page.add(Row(_title(answers), style="bold"))
            page.add(*(Row(text, (Cell(engine, _LABEL + 4),), _INDENT) for engine, text in _first(answers)))
            continue
        page.blank()
        page.add(Row(answers.subject.says, style="bold"))
        for one in answers.engines:
            page.blank()
            page.add(*_engine(one))
    page.blank()
    page.add(*(Row(text, style="dim") for text in notes(report)))
    return page.render()


def _title(answers: Answers) -> str:
    subject = answers.subject
    return subject.says if subject.kind != "architecture" else subject.model.subject


def _first(answers: Answers) -> Iterable[tuple[str, str]]:
    """Of every engine that has one: the first release that serves it, and the first that lists it."""
    for one in answers.engines:
        if (said := first_of(one)) is not None:
            yield one.column.engine, said


def first_of(one: Since) -> str | None:
    """``0.19.1 (2026-04-18), listed since 0.15.0``; None: no release has to do with it."""
    runs = one.own or one.borrowed
    if not runs:
        doubt = "unknown" if one.word == "unknown" else "none"
        return f"{doubt}, though listed since {_dated(one.lists[0].first)}" if one.lists else None
    said = _dated(runs[0].first)
    if not one.own:
        said += " through transformers' own class"
    elif one.lists and one.lists[0].first != runs[0].first:
        said += f", listed since {_dated(one.lists[0].first)}"
    return said if one.current(runs[-1]) else f"{said}, until {_dated(runs[-1].last)}"


def _engine(one: Since) -> Iterable[Row]:
    yield Row(headline(one), style=STYLES[one.word], label=f"{one.column.engine}: ")
    for label, text in details(one):
        yield Row(text, (Cell(label, _LABEL),), _INDENT)


def headline(one: Since) -> str:
    """The answer in one line: natively from when to when, and through a fallback where that is more."""
    native, other = one.own, one.borrowed
    if native:
        said = _whole(one, native)
        if other and other[0].first.date < native[0].first.date:
            said += f"; before that through {_BACK_END}, from {_dated(other[0].first)} on"
        if other and other[-1].last.date > native[-1].last.date:
            said += f"; {'now' if one.current(other[-1]) else 'then'} through {_BACK_END}"
        return said
    if other:
        return f"through {_BACK_END} {_whole(one, other)}"
    if one.usable:
        return "only with a transformers that is younger than the releases that followed"
    if one.word == "unknown" and one.lists:
        return f"listed {_whole(one, one.lists)}; whether it can be used is unknown"
    if one.word == "unknown":
        newest = one.stretches[-1].answer.usable
        return "unknown" if newest == "unknown" else "no release that could be read serves it"
    return "listed, but no release can serve it" if one.lists else "no release serves it"


_BACK_END = "its Transformers back end"


def _whole(one: Since, runs: Sequence[Run]) -> str:
    """``since 0.17.0 (2026-03-07)``, from the first release to the last, and whether there are gaps."""
    first, last = runs[0].first, runs[-1].last
    said = f"since {_dated(first)}" if one.current(runs[-1]) else f"{_span(Run(first, last, 2))}, no longer"
    if not settled(first) and (final := _first_final(one, runs)) is not None:
        said += f", first final release {_dated(final)}"
    return f"{said}, with gaps" if len(runs) > 1 else said


def _first_final(one: Since, runs: Iterable[Run]) -> Release | None:
    """The first of these that is neither a pre-release nor withdrawn."""
    at = {release.version: position for position, release in enumerate(one.column.releases)}
    for run in runs:
        for release in one.column.releases[at[run.first.version] : at[run.last.version] + 1]:
            if settled(release):
                return release
    return None


def details(one: Since) -> Iterable[tuple[str, str]]:
    """Label and text of what stands behind the headline; a label is given once."""
    lists = one.lists
    if lists:
        yield "lists", ", ".join(_from(one, run) for run in lists)
    groups: dict[str, list[str]] = {}
    for stretch in one.stretches:
        label = _label(stretch)
        if label:
            groups.setdefault(label, []).append(f"{_from(one, stretch.run)}{_how(stretch)}")
    for label, texts in sorted(groups.items(), key=lambda item: _LABELS.index(item[0])):
        for number, text in enumerate(texts):
            yield (label if number == 0 else ""), text
    if runs := one.own or one.borrowed or lists:
        first = runs[0].first
        yield "read", f"{first.evidence} for {first.version}"
    for said in one.dropped:
        text = f"{_from(one, said.run)} name {said.last} as the last that served {said.name}"
        yield ("says" if said is one.dropped[0] else ""), text


_LABELS = ("serves", "unknown", "cannot")


def _label(stretch: Stretch) -> str:
    answer = stretch.answer
    if answer.usable == "yes":
        return "serves"
    if answer.usable == "unknown":
        return "unknown"
    return "cannot" if answer.way not in ("none", "unknown") else ""


def _how(stretch: Stretch) -> str:
    answer = stretch.answer
    if answer.usable != "yes":
        return f": {answer.because}"
    way = WAYS[answer.way].format(answer.served_by)
    if answer.needs:
        said = f"with {', '.join(answer.needs)}"
        if answer.ahead:
            said += ", allowed, but younger than the releases that followed"
    elif stretch.transformers is None:
        said = ""
    else:
        oldest, newest = stretch.transformers
        said = (
            f"with transformers {oldest}"
            if oldest == newest
            else f"with any transformers they allow ({oldest} to {newest})"
        )
    text = " ".join(filter(None, (way, said)))
    return f" {text}" if text else ""


def _from(one: Since, run: Run) -> str:
    """``0.17.0 (2026-03-07) on``, or a run's first and last release with their days."""
    return f"from {_dated(run.first)} on" if one.current(run) else _span(run)


def _span(run: Run) -> str:
    if run.first == run.last:
        return _dated(run.first)
    days = " to ".join(filter(None, (run.first.date, run.last.date)))
    return f"{run.first.version} to {run.last.version}" + (f" ({days})" if days else "")


def _dated(release: Release) -> str:
    yanked = ", yanked" if release.yanked else ""
    day = f"{release.date}{yanked}".lstrip(", ")
    return f"{release.version} ({day})" if day else release.version


def notes(report: SinceReport) -> Sequence[str]:
    """Where the answer comes from, and what it leaves out."""
    columns = report.columns
    engines = ", ".join(f"{c.engine} to {c.releases[-1].version}" for c in columns if c.releases)
    said = [f"from the index {dated(columns)} ({engines}), no release was read anew"]
    if report.not_indexed:
        said[0] += f"; not in the index: {', '.join(report.not_indexed)}"
    if len(report.names) > 1:
        said += [f"{one.column.engine}: no release could be read: {one.blank}" for one in _blank(report)]
    named = any(answers.subject.kind == "architecture" for answers in report.answers)
    blocked = any(
        s.answer.check == "config-parsable" for a in report.answers for e in a.engines for s in e.stretches
    )
    if named and blocked:
        said.append(
            "a repository that brings its own configuration code may be served where the config cannot be parsed: "
            "name the model instead"
        )
    if any(answers.subject.kind == "model" for answers in report.answers):
        said.append(
            "its class and config were judged, not its weights: `canserve check` asks about all of it"
        )
    return said


def _blank(report: SinceReport) -> Sequence[Since]:
    """Engines of which no release could be read, whatever is asked."""
    answers = report.answers[0].engines if report.answers else ()
    return [one for one in answers if one.blank is not None]


def since_markdown(report: SinceReport) -> str:
    """A table a subject; of several names one table of first releases, then what was read for each of them."""
    lines = _compared(report) if len(report.names) > 1 else _single(report)
    return "\n".join([*lines, *(markdown(note) for note in notes(report))]) + "\n"


def _single(report: SinceReport) -> Iterable[str]:
    for answers in report.answers:
        yield from (f"### {markdown(answers.subject.says)}", "", "| engine | served | |", "|---|---|---|")
        for one in answers.engines:
            texts = [
                f"{label}: {markdown(text)}" if label else markdown(text) for label, text in details(one)
            ]
            yield f"| {_in_table(one.column.engine)} | {markdown(headline(one))} | {'<br>'.join(texts)} |"
        yield ""


def _compared(report: SinceReport) -> Iterable[str]:
    blank = {one.column.engine for one in _blank(report)}
    engines = [column.engine for column in report.columns if column.engine not in blank]
    yield from (f"| | {' | '.join(map(markdown, engines))} |", "|---" * (len(engines) + 1) + "|")
    read: dict[tuple[str, str], str] = {}
    for answers in report.answers:
        told = [one for one in answers.engines if one.column.engine not in blank]
        cells = [markdown(first_of(one) or "-") for one in told]
        yield f"| {_in_table(_title(answers))} | {' | '.join(cells)} |"
        for one in told:
            for run in (*(one.own or one.borrowed)[:1], *one.lists[:1]):
                read[one.column.engine, run.first.version] = run.first.evidence
    yield ""
    yield "Read for it:"
    yield ""
    order = {column.engine: at for at, column in enumerate(report.columns)}
    for (engine, version), evidence in sorted(
        read.items(), key=lambda item: (order[item[0][0]], Version(item[0][1]))
    ):
        yield f"- {code(f'{engine}=={version}')}: {markdown(evidence)}"
    yield ""


def _in_table(text: str) -> str:
    """A code span; inside a table even that needs its bars escaped."""
    return code(text).replace("|", "\\|")
