"""A check as SARIF 2.1.0, for code scanning: a result for each no and each unknown, where it stands in the recipe.

Source: OASIS, Static Analysis Results Interchange Format (SARIF) Version 2.1.0. A no is of kind ``fail``, an unknown ``open``
("insufficient information to decide"), whose level is ``none`` (3.27.9, 3.27.10).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from canserve import __version__
from canserve.api import BuildReport, Report
from canserve.render.escape import visible
from canserve.subjects.recipe import Recipe
from canserve.verdict import Finding, No, Unknown, Verdict, word

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
READABLE = "build-readable"
"""The rule of a build that could not be read, so that no check judged it."""
_LINE = re.compile(r"line (\d{1,7})")
_TOLD = re.compile(r"line (\d{1,7})(?: \([^()]{1,200}\))?: ")
"""Flags of a recipe are told with their line."""


def check_sarif(report: Report) -> str:
    """The whole log of one check."""
    about = {"verdict": word(report.verdict), "model": visible(report.model.subject)}
    return log_of(results_of(report), about)


def log_of(results: Sequence[dict[str, Any]], about: Mapping[str, str]) -> str:
    """A log with one run."""
    used = {result["ruleId"] for result in results}
    driver = {"name": "canserve", "semanticVersion": __version__, "rules": list(_rules(used))}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": list(results),
        "properties": dict(about),
    }
    return (
        json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=True) + "\n"
    )


def results_of(report: Report) -> list[dict[str, Any]]:
    """A result for each no and each unknown."""
    return [result for build in report.builds for result in _of_build(build, report.recipe)]


def unreadable(rule: str, file: str, line: int, verdict: Verdict) -> Iterator[dict[str, Any]]:
    """A file that could not be read at all."""
    return _result(rule, file, verdict, (file, line))


def _rules(used: set[str]) -> Iterator[dict[str, Any]]:
    from canserve.checks import REFERENCE

    claims = {check.name: check.claim for check in REFERENCE}
    for name in sorted(used):
        claim = claims.get(name, "it can be read")
        yield {"id": name, "shortDescription": {"text": claim}, "defaultConfiguration": {"level": "error"}}


def _of_build(build: BuildReport, recipe: Recipe | None) -> Iterator[dict[str, Any]]:
    for finding in build.findings:
        yield from _result(finding.check, finding.about, finding.verdict, _at(finding, recipe))
    if not build.findings:
        at = None if recipe is None else _line_of(recipe, "build", "")
        yield from _result(READABLE, build.target, build.verdict, at)


def _result(rule: str, about: str, verdict: Verdict, at: tuple[str, int] | None) -> Iterator[dict[str, Any]]:
    match verdict:
        case No(because=because, fix=advice):
            kind, level, label = "fail", "error", "fix"
        case Unknown(because=because, ask=advice):
            kind, level, label = "open", "none", "ask"
        case _:
            return
    text = f"{visible(because)}. {label}: {visible(advice)}" if advice else visible(because)
    location: dict[str, Any] = {"logicalLocations": [{"fullyQualifiedName": visible(about)}]}
    if at is not None:
        location["physicalLocation"] = {
            "artifactLocation": {"uri": quote(at[0].removeprefix("./"), errors="surrogateescape")},
            "region": {"startLine": at[1]},
        }
    same = hashlib.sha256(f"{rule}\0{about}".encode("utf-8", "surrogatepass")).hexdigest()
    yield {
        "ruleId": rule,
        "kind": kind,
        "level": level,
        "message": {"text": text},
        "locations": [location],
        "partialFingerprints": {"checkAndSubject/v1": same},
    }


def _at(finding: Finding, recipe: Recipe | None) -> tuple[str, int] | None:
    """Where in the recipe: a line that was read for it, else the flag that it speaks of, else what decides there."""
    if recipe is None:
        return None
    if told := _TOLD.match(finding.verdict.because):
        return recipe.name, int(told[1])
    for look in finding.evidence:
        if look.subject == recipe.name and (found := _LINE.fullmatch(look.how)):
            return recipe.name, int(found[1])
    verdict = finding.verdict
    return _line_of(recipe, "model", f"{verdict.because} {getattr(verdict, 'fix', '')}")


def _line_of(recipe: Recipe, what: str, text: str) -> tuple[str, int]:
    spoken = [
        word for word in recipe.args if word.value.startswith("--") and word.value.partition("=")[0] in text
    ]
    build = (recipe.image, recipe.requirement)
    order = (*spoken, *(build if what == "build" else (recipe.model, *build)))
    return recipe.name, next((one.line for one in order if one is not None and one.line > 0), 1)
