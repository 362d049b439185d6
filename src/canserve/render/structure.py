"""Reports and subjects as the shapes of the JSON output."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from canserve.api import BuildReport, Report
from canserve.facts import Missing, derive
from canserve.render.plain import filled, plain
from canserve.render.shapes import (
    BuildVerdictShape,
    CheckListShape,
    CheckReferenceShape,
    CheckShape,
    FindingShape,
    ModelShape,
    QuantizationShape,
)
from canserve.subjects.model import Model, Quantization
from canserve.verdict import Finding, No, Unknown, Yes, word

if TYPE_CHECKING:
    from canserve.checks.every import Described


def to_json(shape: object) -> str:
    """JSON in ASCII, so that no terminal and no encoding can be upset by what a name holds."""
    return json.dumps(plain(shape), indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def check_output(report: Report) -> CheckShape:
    """A whole report."""
    return CheckShape(
        version=1,
        model=model_summary(report.model),
        verdict=word(report.verdict),
        builds=tuple(build_verdict(build) for build in report.builds),
        chosen=report.chosen,
        not_indexed=report.not_indexed,
        notes=report.notes,
        cost=report.cost,
        recipe=report.recipe,
    )


def finding_output(finding: Finding) -> FindingShape:
    """One check, judged."""
    verdict = finding.verdict
    return FindingShape(
        check=finding.check,
        about=finding.about,
        verdict=word(verdict),
        because=verdict.because,
        fix=verdict.fix if isinstance(verdict, No) else None,
        ask=verdict.ask if isinstance(verdict, Unknown) else None,
        needs=verdict.needs if isinstance(verdict, Yes) else (),
        evidence=finding.evidence,
    )


def build_verdict(report: BuildReport) -> BuildVerdictShape:
    """One build, judged."""
    build = report.build
    identity = None if isinstance(build, Missing) else build.identity
    return BuildVerdictShape(
        build=report.target,
        machine=report.machine,
        engine=identity.engine if identity else None,
        engine_version=build if isinstance(build, Missing) else build.identity.version,
        origin=identity.origin if identity else None,
        verdict=word(report.verdict),
        because=report.verdict.because,
        findings=tuple(finding_output(finding) for finding in report.findings),
        skipped=report.skipped,
        notes=report.notes,
        unread=build if isinstance(build, Missing) else None,
        index_date=report.indexed,
    )


def model_summary(model: Model) -> ModelShape:
    """The model in short."""
    quantization = derive(model.quantization, _quantization)
    return filled(ModelShape, model, name=model.subject, quantization=quantization)


def _quantization(found: Quantization | None) -> QuantizationShape | None:
    if found is None:
        return None
    return QuantizationShape(found.method, found.declared, found.source, found.kv_cache)


def checks_output(checks: Iterable[Described]) -> CheckListShape:
    """The check reference."""
    rows = (CheckReferenceShape(c.name, c.claim, c.needs_machine, c.needs_layout, c.when) for c in checks)
    return CheckListShape(1, tuple(rows))
