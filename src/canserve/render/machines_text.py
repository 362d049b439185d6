"""Machines as text: what each is, what passes between them, and what is to be said of them."""

from __future__ import annotations

from canserve.api.machines import MachinesReport
from canserve.checks.machines.question import ALONE, NOBODY_LOOKED
from canserve.facts import Known
from canserve.render.page import STYLES, Cell, Look, Page, Row
from canserve.render.preflight_text import preflight_rows
from canserve.render.subject_structure import machine_output
from canserve.render.subject_text import machine_rows
from canserve.render.text import findings_rows, skipped_rows
from canserve.subjects.links import NOT_TRIED

_PLAIN = {ALONE, NOBODY_LOOKED}
"""Reasons that need not be said: whoever asks about one machine, or a profile, knows them."""


def machines_text(report: MachinesReport, look: Look) -> str:
    """The whole page."""
    page = Page(look)
    for one in machine_output(report).machines:
        page.blank()
        page.add(*machine_rows(one))
    found = report.cluster.links
    if found is not NOT_TRIED:
        page.blank()
        page.add(Row(label="links"))
        if isinstance(found, Known):
            page.add(*(Row(str(link), indent=2) for link in found.value))
        else:
            page.add(Row(found.why, (Cell("unknown", 9, STYLES["unknown"]),), indent=2))
    if isinstance(flown := report.cluster.preflight, Known):
        page.blank()
        page.add(*preflight_rows(flown.value, report.cluster))
    if report.findings:
        page.blank()
        page.add(Row(label="serving on them" if len(report.cluster.nodes) > 1 else "serving on it"))
        page.add(*findings_rows(report.cluster.subject, report.findings, look))
        page.add(*skipped_rows((s.check, s.because) for s in report.skipped if s.because not in _PLAIN))
    return page.render()
