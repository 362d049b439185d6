"""The gates a transformers release must open for a model: its config, the class's imports, the fallback.

Which release will be there is often only known as a range. Each gate therefore answers with the set of
candidate releases that pass, and the checks say "all", "some" or "none" of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from canserve.checks.case import Case
from canserve.checks.reader import Reader
from canserve.facts import Evidence, Known
from canserve.rules import broken
from canserve.rules.table import covers
from canserve.subjects.build import NOT_ASKED, Build, Fallback, Import, ModelClass, TransformersTable


@dataclass(frozen=True, slots=True)
class Passing:
    """Which candidate releases pass a gate. ``unsure`` neither surely pass nor surely fail."""

    candidates: tuple[str, ...]
    passed: frozenset[str]
    unsure: frozenset[str] = frozenset()
    reason: str = ""
    """Why the others fail, in a few words."""

    def both(self, other: Passing) -> Passing:
        """The releases that pass this gate and the other one."""
        maybe = (self.passed | self.unsure) & (other.passed | other.unsure)
        passed = self.passed & other.passed
        reasons = (gate.reason for gate in (self, other) if gate.reason and gate.shut)
        reason = "; ".join(dict.fromkeys(reasons))
        return Passing(self.candidates, passed, maybe - passed, reason)

    @property
    def shut(self) -> bool:
        """Whether some candidate surely fails."""
        return len(self.passed | self.unsure) < len(self.candidates)

    @property
    def every(self) -> bool:
        """Whether all candidates pass."""
        return bool(self.candidates) and len(self.passed) == len(self.candidates)


def is_the_library(build: Build) -> bool:
    """Whether a build is the transformers library itself, served without an engine."""
    own, version = build.transformers, build.identity.version
    if not (isinstance(own.installed, Known) and isinstance(own.requirement, Known)):
        return False
    if not isinstance(version, Known):
        return False
    return own.installed.value == version.value and own.requirement.value == f"=={version.value}"


def spans(chosen: Iterable[str], ordered: Sequence[str]) -> str:
    """``4.56.0 to 4.57.6, 5.5.1``: runs of neighbours among the ordered candidates."""
    wanted = set(chosen)
    runs: list[list[str]] = []
    previous_in = False
    for version in ordered:
        inside = version in wanted
        if inside and previous_in:
            runs[-1].append(version)
        elif inside:
            runs.append([version])
        previous_in = inside
    return ", ".join(run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs) or "none"


def condition(passing: Passing) -> tuple[str, ...]:
    """What a user must see to, so that a passing release is the one installed; empty when any will do."""
    if passing.every:
        return ()
    good = [version in passing.passed for version in passing.candidates]
    if not good[-1]:
        newest = max(passing.passed, key=passing.candidates.index)
        return (f"transformers=={newest}",)
    last_bad = max(index for index, passes in enumerate(good) if not passes)
    return (f"transformers>={passing.candidates[last_bad + 1]}",)


def candidates(reader: Reader, case: Case) -> tuple[tuple[str, ...], TransformersTable]:
    """The transformers releases that may be there, and what is known of them."""
    versions = reader.read(case.build.transformers.candidates())
    table = reader.read(case.build.transformers.table)
    return versions, table


def cite_releases(reader: Reader, table: TransformersTable, versions: Sequence[str]) -> None:
    """Evidence for the releases at both ends of a range: where their rows come from."""
    for version in dict.fromkeys((*versions[:1], *versions[-1:])):
        if version in table.versions:
            reader.cite((table.evidence(version),))


def config_gate(reader: Reader, case: Case, model_type: str) -> Passing:
    """Candidates whose own table maps this model type."""
    versions, table = candidates(reader, case)
    known = frozenset(table.versions)
    cite_releases(reader, table, versions)
    passed = frozenset(v for v in versions if v in known and model_type in table.config_types(v))
    unsure = frozenset(v for v in versions if v not in known)
    return Passing(versions, passed, unsure, f"model type {model_type} is not in transformers")


def import_gate(reader: Reader, case: Case, needed: Sequence[Import]) -> Passing:
    """Candidates that offer every name a module imports from transformers outside any ``try``."""
    versions, table = candidates(reader, case)
    if not needed:
        return Passing(versions, frozenset(versions))
    known = frozenset(table.versions)
    cite_releases(reader, table, versions)
    passed, unsure, lacking = set(), set(), {}
    for version in versions:
        if version not in known:
            unsure.add(version)
            continue
        answers = {need: table.has_name(version, need.module, need.name) for need in needed}
        if missing := [need for need, has in answers.items() if has is False]:
            lacking[version] = missing[0]
        elif None in answers.values():
            unsure.add(version)
        else:
            passed.add(version)
    for need in dict.fromkeys(lacking.values()):
        what = f"from {need.module} import {need.name}" if need.name else f"import {need.module}"
        reader.cite((look(case, str(need.at), what),))
    names = ", ".join(dict.fromkeys(f"{n.module}.{n.name}" if n.name else n.module for n in lacking.values()))
    return Passing(versions, frozenset(passed), frozenset(unsure), f"it has no {names}" if names else "")


def fallback_gate(reader: Reader, case: Case, architecture: str, fallback: Fallback) -> Passing:
    """Candidates whose own class of that name the engine's Transformers back end accepts."""
    versions, table = candidates(reader, case)
    known = frozenset(table.versions)
    cite_releases(reader, table, versions)
    passed, unsure, exists = set(), set(), False
    for version in versions:
        tests = table.backend_tests(version, architecture) if version in known else None
        if tests is not None:
            exists = True
            if tests & set(fallback.accepts):
                passed.add(version)
        elif version not in known or table.has_name(version, "transformers", architecture) is not False:
            unsure.add(version)  # it is there, or may be, but its class was not read
    reason = (
        f"transformers' {architecture} does not pass the Transformers back end's test"
        if exists
        else f"transformers has no {architecture} to fall back on"
    )
    return Passing(versions, frozenset(passed), frozenset(unsure), reason)


def known_gate(reader: Reader, case: Case, versions: tuple[str, ...]) -> Passing:
    """Candidates with which no rule says that this release of the engine fails for this architecture."""
    identity = case.build.identity
    found = broken.rows(identity.engine, reader.read(case.model.architectures))
    failing: set[str] = set()
    unsure: set[str] = set()
    reasons: list[str] = []
    for row in (row for row in found if row.texts("transformers")):
        inside = covers(row.text("releases"), reader.read(identity.version))
        if inside is False:
            continue
        hit = {version for version in versions if covers(row.text("transformers"), version) is not False}
        if not hit:
            continue
        (unsure if inside is None else failing).update(hit)
        reasons.append(f"{row.text('because')} ({row.text('fix')})")
        reader.cite((row.evidence(row.text("because")),))
    passed = frozenset(versions) - failing - unsure
    return Passing(versions, passed, frozenset(unsure - failing), "; ".join(reasons))


def look(case: Case, how: str, saw: str) -> Evidence:
    """Evidence inside the build."""
    return Evidence(case.build.identity.subject, how, saw)


def resolved(reader: Reader, case: Case, architecture: str) -> ModelClass | None:
    """The class behind a registered architecture; None when its module or class does not exist."""
    return reader.read(case.build.classes.get(architecture, NOT_ASKED))
