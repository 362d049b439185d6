"""Findings as JUnit XML, for continuous integration: a suite for each build, plan or endpoint, a case for each check.

A no is a failure. An unknown is an error: the question could not be answered, which is neither passed nor failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from canserve.api import BuildReport, Report
from canserve.api.planning import PlanReport
from canserve.api.verifying import VerifyReport
from canserve.facts import Evidence
from canserve.render.escape import visible
from canserve.render.figures import layout_name
from canserve.render.text import name_of
from canserve.verdict import Finding, No, Skipped, Unknown, Verdict, Yes

MOST = 100_000
"""Characters of what was read for one finding."""


@dataclass(frozen=True, slots=True)
class Group:
    """What one suite is about."""

    name: str
    verdict: Verdict
    findings: Sequence[Finding]
    skipped: Sequence[Skipped]


def check_junit(report: Report) -> str:
    """A check: a suite for each build."""
    return document(report.model.subject, map(group_of, report.builds))


def group_of(build: BuildReport, lead: str = "") -> Group:
    """One build of a check."""
    where = f" on {build.machine}" if build.machine else ""
    return Group(f"{lead}{build.target}{where}", build.verdict, build.findings, build.skipped)


def plans_junit(report: PlanReport) -> str:
    """The best plan; others are no test of anything."""
    plans = report.plans
    groups = [
        Group(f"{plan.build}, {layout_name(plan.parallel)}", plan.verdict, plan.findings, plan.skipped)
        for plan in plans.plans[:1]
    ]
    return document(f"{plans.model} on {report.on}", groups or [Group("plan", plans.verdict, (), ())])


def verify_junit(report: VerifyReport) -> str:
    """A verification."""
    group = Group(report.served.subject, report.verdict, report.findings, report.skipped)
    return document(report.served.subject, (group,))


def document(name: str, groups: Iterable[Group]) -> str:
    """The whole file."""
    root = ElementTree.Element("testsuites", name=visible(name))
    for group in groups:
        root.append(_suite(group))
    for key in ("tests", "failures", "errors", "skipped"):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in root)))
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _suite(group: Group) -> ElementTree.Element:
    suite = ElementTree.Element("testsuite", name=visible(group.name))
    for finding in group.findings:
        suite.append(_case(name_of(finding, group.findings), group.name, finding.verdict, finding.evidence))
    if not group.findings:
        suite.append(_case("readable", group.name, group.verdict, ()))
    for skip in group.skipped:
        case = ElementTree.SubElement(
            suite, "testcase", name=visible(skip.check), classname=visible(group.name)
        )
        ElementTree.SubElement(case, "skipped", message=visible(skip.because))
    for key, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(key, str(sum(case.find(tag) is not None for case in suite)))
    suite.set("tests", str(len(suite)))
    return suite


def _case(name: str, of: str, verdict: Verdict, evidence: Sequence[Evidence]) -> ElementTree.Element:
    case = ElementTree.Element("testcase", name=visible(name), classname=visible(of))
    match verdict:
        case No(because=because, fix=fix):
            said = ElementTree.SubElement(case, "failure", message=visible(because), type="no")
            said.text = _text(("fix", fix), evidence)
        case Unknown(because=because, ask=ask):
            said = ElementTree.SubElement(case, "error", message=visible(because), type="unknown")
            said.text = _text(("ask", ask), evidence)
        case Yes():
            pass
    return case


def _text(advice: tuple[str, str], evidence: Sequence[Evidence]) -> str:
    rows = [f"{advice[0]}: {visible(advice[1])}"] if advice[1] else []
    rows += [f"{visible(look.subject)} {visible(look.how)}: {visible(look.saw)}" for look in evidence]
    return "\n".join(rows)[:MOST]
