"""A report as text: one line a build with the verdict first, then why, then what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from canserve.api import BuildReport, Report
from canserve.facts import Evidence, Fact, Known, Missing
from canserve.render.page import STYLES, Cell, Look, Page, Row
from canserve.subjects.model import Model, Parameters
from canserve.units import Bytes, decimal
from canserve.verdict import Finding, Skipped, Verdict, Word, Yes, advice, word

T = TypeVar("T")

_VERDICT = 9
"""Width of the verdict column: ``unknown`` and a gap."""
_WIDEST_NAME = 40


def check_text(report: Report, look: Look) -> str:
    """The whole report. One row a build; builds with the same reasons share one section."""
    page = Page(look)
    page.add(*_head(report))
    page.blank()
    alone = len(report.builds) == 1
    page.add(*_table(report.builds, alone))
    shared = shared_skips(report)
    for builds, rows in _sections(report.builds, look, shared):
        if not alone:
            page.blank()
            names = ", ".join(build.target for build in builds)
            verdict = word(builds[0].verdict)
            page.add(Row(verdict, style=STYLES[verdict], label=f"{names}: "))
        page.add(*rows)
    if shared and not alone:
        page.blank()
        page.add(Row(label="every build:"))
    page.add(*skipped_rows(shared))
    if notes := notes_of(report):
        page.blank()
        page.add(*(Row(note, label="note ") for note in notes))
    return page.render()


def _head(report: Report) -> Iterable[Row]:
    machines = dict.fromkeys(build.machine for build in report.builds if build.machine)
    where = f" on {', '.join(machines)}" if machines else ""
    yield Row(f"{report.model.subject}{where}", style="bold")
    yield Row(describe(report.model), indent=2)
    if report.recipe is not None:
        from canserve.render.recipe_text import summary

        yield Row(summary(report.recipe), indent=2)
    if report.chosen:
        yield Row(chosen(report), indent=2)


def notes_of(report: Report) -> tuple[str, ...]:
    """What is to be said beside the verdicts; of a recipe what was not understood."""
    if report.recipe is None:
        return report.notes
    from canserve.subjects.recipe import remarks

    return (*remarks(report.recipe), *report.notes)


def chosen(report: Report) -> str:
    """What a report without named builds is: where it comes from, and how to ask for more."""
    dates = sorted({build.indexed for build in report.builds if build.indexed})
    of = " to ".join(dict.fromkeys((*dates[:1], *dates[-1:]))) or "no date"
    said = (
        f"the most suitable release of each engine, judged from the release index of {of} alone; "
        "--build reads a release's own files"
    )
    return f"{said}; not in the index: {', '.join(report.not_indexed)}" if report.not_indexed else said


def describe(model: Model) -> str:
    """The model in one line: class, type, parameters, quantization; what is missing says why."""
    parameters = _said(model.parameters, _parameters)
    quantization = _said(model.quantization, lambda found: found.method if found else "not quantized")
    return ", ".join(dict.fromkeys((*_kind(model), parameters, quantization)))


def _kind(model: Model) -> tuple[str, ...]:
    inside = model.gguf_architecture
    if isinstance(inside, Known) and inside.value is not None:
        return (f"GGUF architecture {inside.value}",)
    architectures = _said(model.architectures, lambda names: ", ".join(names) or "no architecture named")
    model_type = _said(model.model_type, lambda name: f"model type {name}" if name else "no model type")
    return architectures, model_type


def _parameters(found: Parameters) -> str:
    kinds = sorted(found.by_dtype.items(), key=lambda item: -item[1])
    least = sum(found.by_dtype.values()) / 1000  # a few scales in another dtype tell a reader nothing
    stored = " + ".join(f"{_count(count)} {dtype}" for dtype, count in kinds if count >= least)
    return f"{_count(found.total)} parameters ({stored}) in {Bytes(found.bytes)}"


def _count(number: int) -> str:
    """125_090_000_000 -> ``125B``, as parameters are counted everywhere."""
    return decimal(number).replace(" ", "").replace("G", "B")


def _table(builds: Sequence[BuildReport], alone: bool) -> Iterable[Row]:
    name_width = min(max((len(build.target) for build in builds), default=0), _WIDEST_NAME) + 2
    for build in builds:
        verdict = word(build.verdict)
        cells = (
            Cell(verdict, _VERDICT, STYLES[verdict]),
            Cell(build.target, 0 if alone else name_width, "bold"),
        )
        yield Row("" if alone else in_short(build), cells, cut=True)


def in_short(build: BuildReport) -> str:
    """The reason in one line; for a yes how much was checked, and what it needs."""
    if not isinstance(build.verdict, Yes):
        return build.verdict.because
    needs = _needs(build.findings)
    count = len(build.findings)
    checks = "1 check" if count == 1 else f"all {count} checks"
    return f"{checks}, with {', '.join(needs)}" if needs else checks


def _needs(findings: Iterable[Finding]) -> list[str]:
    found = (need for f in findings if isinstance(f.verdict, Yes) for need in f.verdict.needs)
    return list(dict.fromkeys(found))


def shared_skips(report: Report) -> tuple[tuple[str, str], ...]:
    """Checks that were skipped for every build, with one and the same reason; said once, at the end."""
    read = [build for build in report.builds if not isinstance(build.build, Missing)]
    each = [{_skip(skip): None for skip in build.skipped} for build in read]
    return tuple(skip for skip in each[0] if all(skip in other for other in each)) if each else ()


def own_skips(build: BuildReport, shared: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """The others."""
    return tuple(_skip(skip) for skip in build.skipped if _skip(skip) not in shared)


def _skip(skip: Skipped) -> tuple[str, str]:
    return skip.check, skip.because


def _sections(
    builds: Sequence[BuildReport], look: Look, shared: Sequence[tuple[str, str]]
) -> Iterable[tuple[list[BuildReport], tuple[Row, ...]]]:
    """Builds by what there is to say about them, in the order in which the user named them."""
    groups: dict[tuple[Row, ...], list[BuildReport]] = {}
    for build in builds:
        rows = (*_reasons(build, look), *skipped_rows(own_skips(build, shared)), *_notes(build))
        groups.setdefault(rows, []).append(build)
    return ((group, rows) for rows, group in groups.items())


def _reasons(build: BuildReport, look: Look) -> Iterable[Row]:
    if not build.findings:
        yield _paragraph(word(build.verdict), "", build.verdict.because)
        yield from advice_rows(build.verdict)
    yield from findings_rows(build.target, build.findings, look)


def findings_rows(target: str, findings: Sequence[Finding], look: Look) -> Iterable[Row]:
    """Findings worst first; those that need nothing said of them are named together at the end."""
    quiet: list[str] = []
    for group in by_advice(findings):
        reasons: dict[str, list[str]] = {}
        for finding in group:
            name = name_of(finding, findings)
            if {"all", finding.check} & look.explain:
                yield _paragraph(word(finding.verdict), f"{name}: ", finding.verdict.because)
                yield from _evidence(finding.evidence, target)
            elif isinstance(finding.verdict, Yes) and not finding.verdict.needs:
                quiet.append(name)
            else:
                reasons.setdefault(finding.verdict.because, []).append(name)
        for because, checks in reasons.items():
            yield _paragraph(word(group[0].verdict), f"{', '.join(checks)}: ", because)
        yield from advice_rows(group[0].verdict)
    if quiet:
        yield _paragraph("yes", "", ", ".join(quiet))


def name_of(finding: Finding, findings: Sequence[Finding]) -> str:
    """The check's name; and about what, where it gave several results for several machines."""
    several = sum(other.check == finding.check for other in findings) > 1
    return f"{finding.check} ({finding.about})" if several else finding.check


_RANK: dict[Word, int] = {"no": 0, "unknown": 1, "yes": 2}


def by_advice(findings: Iterable[Finding]) -> Iterable[list[Finding]]:
    """Worst first; findings that the same change would settle stand together, so that it is said once."""
    groups: dict[tuple[int, Row | None], list[Finding]] = {}
    for finding in findings:
        key = (_RANK[word(finding.verdict)], next(iter(advice_rows(finding.verdict)), None))
        groups.setdefault(key, []).append(finding)
    return (group for _, group in sorted(groups.items(), key=lambda item: item[0][0]))


def _paragraph(verdict: Word, label: str, text: str) -> Row:
    return Row(text, (Cell(verdict, _VERDICT, STYLES[verdict]),), indent=2, label=label)


def advice_rows(verdict: Verdict, indent: int = 2 + _VERDICT) -> Iterable[Row]:
    """What a verdict asks to be done, on a line."""
    label, what = advice(verdict)
    if what:
        yield Row(", ".join(what), (Cell(f"{label}:", len(label) + 2, "bold cyan"),), indent=indent)


def _evidence(looks: Iterable[Evidence], subject: str) -> Iterable[Row]:
    for look in looks:
        place = look.how if look.subject == subject else f"{look.subject}: {look.how}"
        cut = "" if look.whole else " (partial look)"
        yield Row(f"{place}: {look.saw}{cut}", indent=2 + _VERDICT + 2, style="dim")


def _notes(build: BuildReport) -> Iterable[Row]:
    return (Row(note, (Cell("note", _VERDICT),), indent=2) for note in build.notes)


def skipped_rows(skipped: Iterable[tuple[str, str]]) -> Iterable[Row]:
    """Checks that do not apply, with the reason; those with the same one together."""
    reasons: dict[str, list[str]] = {}
    for check, because in skipped:
        reasons.setdefault(because, []).append(check)
    for because, checks in reasons.items():
        yield Row(f"{', '.join(checks)}: {because}", (Cell("skipped", _VERDICT),), indent=2, style="dim")


def _said(fact: Fact[T], say: Callable[[T], str]) -> str:
    return say(fact.value) if isinstance(fact, Known) else f"unknown ({fact.why})"
