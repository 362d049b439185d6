"""A report as Markdown, for an issue or a pull request: a table, then the reasons."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from canserve.api import BuildReport, Report
from canserve.facts import Evidence
from canserve.render.escape import code, markdown
from canserve.render.text import (
    by_advice,
    chosen,
    describe,
    in_short,
    name_of,
    notes_of,
    own_skips,
    shared_skips,
)
from canserve.verdict import Finding, Verdict, Yes, advice, word

if TYPE_CHECKING:
    from canserve.checks.every import Described


def check_markdown(report: Report, explain: frozenset[str] = frozenset()) -> str:
    """The whole report. ``explain``: checks whose evidence is listed; ``all``: every check's."""
    machines = dict.fromkeys(build.machine for build in report.builds if build.machine)
    where = f" on {', '.join(map(code, machines))}" if machines else ""
    lines = [f"### {code(report.model.subject)}{where}: {word(report.verdict)}", ""]
    if report.recipe is not None:
        from canserve.render.recipe_text import summary

        lines += [markdown(summary(report.recipe)), ""]
    if report.chosen:
        lines += [markdown(chosen(report)), ""]
    lines += [markdown(describe(report.model)), "", "| verdict | build | because |", "|---|---|---|"]
    for build in report.builds:
        name = code(build.target).replace("|", "\\|")  # inside a table even a code span needs it
        lines.append(f"| **{word(build.verdict)}** | {name} | {markdown(in_short(build))} |")
    shared = shared_skips(report)
    for build in report.builds:
        lines += ["", *_build(build, explain), *map(_skipped, own_skips(build, shared))]
        lines += [f"- note: {markdown(note)}" for note in build.notes]
    if shared:
        lines += ["", "#### every build", "", *map(_skipped, shared)]
    if notes := notes_of(report):
        lines += ["", *(f"- note: {markdown(note)}" for note in notes)]
    return "\n".join(lines) + "\n"


def _build(build: BuildReport, explain: frozenset[str]) -> Iterable[str]:
    yield f"#### {code(build.target)}: {word(build.verdict)}"
    yield ""
    if not build.findings:
        yield f"- **{word(build.verdict)}**: {markdown(build.verdict.because)}"
        yield from advice_markdown(build.verdict)
    yield from findings_markdown(build.findings, explain)


def findings_markdown(findings: Sequence[Finding], explain: frozenset[str]) -> Iterable[str]:
    """Findings worst first; those that need nothing said of them are named together at the end."""
    quiet: list[str] = []
    for finding in (finding for group in by_advice(findings) for finding in group):
        explained = bool({"all", finding.check} & explain)
        name = name_of(finding, findings)
        if isinstance(finding.verdict, Yes) and not finding.verdict.needs and not explained:
            quiet.append(name)
            continue
        yield f"- **{word(finding.verdict)}** {code(name)}: {markdown(finding.verdict.because)}"
        yield from advice_markdown(finding.verdict)
        yield from _evidence(finding.evidence if explained else ())
    if quiet:
        yield f"- **yes**: {', '.join(map(code, quiet))}"


def _evidence(looks: Iterable[Evidence]) -> Iterable[str]:
    for look in looks:
        cut = "" if look.whole else " (partial look)"
        yield f"  - {code(look.subject)} {code(look.how)}: {markdown(look.saw)}{cut}"


def advice_markdown(verdict: Verdict) -> Iterable[str]:
    """What a verdict asks to be done, as an item below it."""
    label, what = advice(verdict)
    if what:
        yield f"  - {label}: {', '.join(map(code if label == 'with' else markdown, what))}"


def _skipped(skip: tuple[str, str]) -> str:
    check, because = skip
    return f"- skipped {code(check)}: {markdown(because)}"


def skipped_markdown(skipped: Iterable[tuple[str, str]]) -> Iterable[str]:
    """Checks that do not apply, a line each."""
    return map(_skipped, skipped)


def checks_markdown(checks: Iterable[Described]) -> str:
    """The check reference as a table."""
    lines = ["| check | a yes means | judged |", "|---|---|---|"]
    lines += (f"| {code(check.name)} | {markdown(check.claim)} | {check.when} |" for check in checks)
    return "\n".join(lines) + "\n"
