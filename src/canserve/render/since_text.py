"""Which releases serve a name, as text and as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from packaging.version import Version

from canserve.api.released import SinceReport
from canserve.index.runs import Column, Release, Run
from canserve.index.since import Since, Stretch
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
    "unknown": "",
    "none": "",
}


def since_text(report: SinceReport, look: Look) -> str:
    """Each subject, then each engine: first and last release, what is listed, what can be served and how."""
    page = Page(look)
    for answers in report.answers:
        page.blank()
        page.add(Row(answers.subject.says, style="bold"))
        for one in answers.engines:
            page.blank()
            page.add(*_engine(one))
    page.blank()
    page.add(*(Row(text, style="dim") for text in notes(report)))
    return page.render()


def _engine(one: Since) -> Iterable[Row]:
    yield Row(headline(one), style=STYLES[one.word], label=f"{one.column.engine}: ")
    for label, text in details(one):
        yield Row(text, (Cell(label, _LABEL),), _INDENT)


def headline(one: Since) -> str:
    """The answer in one line: natively from when to when, and through a fallback where that is more."""
    tried = [stretch for stretch in one.usable if not stretch.answer.ahead]
    own = one.together(stretch for stretch in tried if stretch.answer.way not in _BORROWED)
    borrowed = one.together(stretch for stretch in tried if stretch.answer.way in _BORROWED)
    if own:
        said = _whole(one, own)
        if borrowed and borrowed[0].first.date < own[0].first.date:
            said += f"; before that through {_BACK_END}, from {_dated(borrowed[0].first)} on"
        if borrowed and borrowed[-1].last.date > own[-1].last.date:
            said += (
                f"; now through {_BACK_END}" if one.current(borrowed[-1]) else f"; then through {_BACK_END}"
            )
        return said
    if borrowed:
        return f"through {_BACK_END} {_whole(one, borrowed)}"
    if one.usable:
        return "only with a transformers that came out after the release"
    if one.word == "unknown":
        return "unknown"
    return "listed, but no release can serve it" if one.lists else "no release serves it"


_BORROWED = ("fallback", "remote")
_BACK_END = "its Transformers back end"


def _whole(one: Since, runs: Sequence[Run]) -> str:
    """``since 0.17.0 (2026-03-07)``, from the first release to the last, and whether there are gaps."""
    first, last = runs[0].first, runs[-1].last
    said = f"since {_dated(first)}" if one.current(runs[-1]) else f"{_span(Run(first, last, 2))}, no longer"
    if Version(first.version).is_prerelease and (final := _first_final(one, runs)) is not None:
        said += f", first final release {_dated(final)}"
    return f"{said}, with gaps" if len(runs) > 1 else said


def _first_final(one: Since, runs: Iterable[Run]) -> Release | None:
    """The first release of these that is no pre-release."""
    at = {release.version: position for position, release in enumerate(one.column.releases)}
    for run in runs:
        for release in one.column.releases[at[run.first.version] : at[run.last.version] + 1]:
            if not Version(release.version).is_prerelease:
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
            said += ", which they allow but which came out later"
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
    named = any(answers.subject.kind == "architecture" for answers in report.answers)
    blocked = any(
        s.answer.check == "config-parsable" for a in report.answers for e in a.engines for s in e.stretches
    )
    if named and blocked:
        said.append(
            "a repository that brings its own configuration code may be served where the config cannot be parsed: "
            "name the model instead"
        )
    return said


def since_markdown(report: SinceReport) -> str:
    """A table a subject: engine, what it lists, what it serves."""
    lines: list[str] = []
    for answers in report.answers:
        lines += [f"### {markdown(answers.subject.says)}", "", "| engine | served | |", "|---|---|---|"]
        for one in answers.engines:
            detail = "<br>".join(
                f"{label or 'and'}: {markdown(text)}" if label else markdown(text)
                for label, text in details(one)
            )
            lines.append(f"| {code(one.column.engine)} | {markdown(headline(one))} | {detail} |")
        lines.append("")
    lines += [markdown(note) for note in notes(report)]
    return "\n".join(lines) + "\n"


def columns_of(report: SinceReport) -> tuple[Column, ...]:
    """The engines that were asked."""
    return report.columns
