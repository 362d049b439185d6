"""Reports about several recipes: a line each as text, one page of Markdown, one JUnit file, one SARIF log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from canserve.api.recipes_checked import RecipeReport
from canserve.facts import Evidence
from canserve.render.escape import code, markdown
from canserve.render.junit import Group, document, group_of
from canserve.render.markdown import check_markdown
from canserve.render.page import STYLES, Cell, Look, Page, Row
from canserve.render.sarif import log_of, results_of, unreadable
from canserve.render.text import by_advice, in_short
from canserve.verdict import Finding, Yes, advice, word

READABLE = "recipe-readable"
_WORD, _LABEL = 9, 5


def recipes_text(reports: Sequence[RecipeReport], look: Look) -> str:
    """The verdict of each, and what to do where it is no yes."""
    page = Page(look)
    for one in reports:
        verdict = one.word
        if verdict is None:
            page.add(Row(one.passed_over, (Cell("skipped", _WORD),), label=f"{one.file}: ", style="dim"))
            continue
        said = _why(one) or "every check says yes"
        page.add(Row(said, (Cell(verdict, _WORD, STYLES[verdict]),), label=f"{one.file}: "))
        for label, what in _advice(one):
            page.add(Row(what, (Cell(label, _LABEL, "bold cyan"),), indent=_WORD))
    if not any(one.word for one in reports):
        page.add(Row("no recipe was found"))
    return page.render()


def _why(one: RecipeReport) -> str:
    if one.report is None:
        return one.problem.removeprefix(f"{one.file}: ")
    builds = [b for b in one.report.builds if word(b.verdict) == word(one.report.verdict)]
    return (
        ""
        if isinstance(one.report.verdict, Yes) or not builds
        else f"{builds[0].target}: {in_short(builds[0])}"
    )


def _advice(one: RecipeReport) -> Iterator[tuple[str, str]]:
    if one.report is None:
        if one.hint:
            yield "hint:", one.hint
        return
    found = [
        finding for build in one.report.builds for group in by_advice(build.findings) for finding in group[:1]
    ]
    for finding in found:
        label, what = advice(finding.verdict)
        if what and not isinstance(finding.verdict, Yes):
            yield f"{label}:", what[0]


def recipes_markdown(reports: Sequence[RecipeReport]) -> str:
    """A table, then every check in full."""
    lines = ["| verdict | recipe | because |", "|---|---|---|"]
    for one in reports:
        because = _why(one) or one.passed_over or "every check says yes"
        name = code(one.file).replace("|", "\\|")
        lines.append(f"| **{one.word or 'skipped'}** | {name} | {markdown(because)} |")
    pages = [check_markdown(one.report) for one in reports if one.report is not None]
    return "\n".join(lines) + "\n" + "".join(f"\n{page}" for page in pages)


def recipes_junit(reports: Sequence[RecipeReport]) -> str:
    """A suite for each build of each recipe."""
    groups = []
    for one in reports:
        if one.report is not None:
            groups += [group_of(build, f"{one.file}: ") for build in one.report.builds]
        elif one.problem:
            verdict = one.trouble
            look = (Evidence(one.file, f"line {one.line}", one.problem),)
            groups.append(Group(one.file, verdict, (Finding(READABLE, one.file, verdict, look),), ()))
    return document("recipes", groups)


def recipes_sarif(reports: Sequence[RecipeReport]) -> str:
    """One run with the results of all."""
    results = []
    for one in reports:
        if one.report is not None:
            results += results_of(one.report)
        elif one.problem:
            results += unreadable(READABLE, one.file, one.line, one.trouble)
    return log_of(results, {})
