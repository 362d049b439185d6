"""combination-not-known-broken: no rule says that this build fails with this model on this GPU."""

from __future__ import annotations

from canserve.checks.case import Case
from canserve.checks.machine.stated import machine_of
from canserve.checks.reader import Check, NotApplicable, Reader
from canserve.rules import broken as rules
from canserve.rules.table import covers
from canserve.verdict import No, Unknown, Verdict

NOTHING = "no combination known to be broken concerns this case"


def not_broken(reader: Reader, case: Case) -> Verdict:
    """The verdict of ``combination-not-known-broken``: no or unknown; it never proves a yes."""
    identity = case.build.identity
    found = rules.rows(identity.engine, reader.read(case.model.architectures))
    rows = [row for row in found if row.texts("capabilities")]
    if not rows:
        raise NotApplicable(NOTHING)
    capability = reader.read(machine_of(case).capability)
    version = reader.read(identity.version)
    for row in rows:
        inside = covers(row.text("releases"), version)
        if inside is False or capability not in rules.capabilities(row):
            continue
        because = row.text("because")
        reader.cite((row.evidence(because),))
        if inside:
            return No(because, row.text("fix"))
        return Unknown(
            f"releases {row.text('releases')} are known to fail: {because}", "start it once, or use a release"
        )
    raise NotApplicable(NOTHING)


NOT_BROKEN = Check(
    "combination-not-known-broken",
    "No rule says that this release fails with this model on this GPU although each part is supported.",
    not_broken,
    needs_machine=True,
)
