"""What several machines gave rise to, said once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from canserve.verdict import Finding, Skipped, Verdict


def together(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Findings that say the same of several machines, as one about all of them."""
    merged: dict[tuple[str, Verdict], Finding] = {}
    for finding in findings:
        key = (finding.check, finding.verdict)
        before = merged.get(key)
        if before is None:
            merged[key] = finding
        elif before.about != finding.about:
            about = f"{before.about}, {finding.about.rpartition(' on ')[2]}"
            evidence = tuple(dict.fromkeys(before.evidence + finding.evidence))
            merged[key] = replace(before, about=about, evidence=evidence)
    return tuple(merged.values())


def once(skipped: Sequence[Skipped]) -> tuple[Skipped, ...]:
    """Checks that were left out for the same reason, each once, the first about which that was said."""
    return tuple({(one.check, one.because): one for one in reversed(skipped)}.values())[::-1]
