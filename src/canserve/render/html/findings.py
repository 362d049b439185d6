"""Findings on a page: what speaks against first, with what to do; what is fine, and all evidence, folded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from canserve.facts import Evidence
from canserve.render.html.frame import advised, folded, said, text
from canserve.render.text import by_advice, name_of
from canserve.verdict import Finding, Yes, word

LOOKS = 60
"""Looks of one finding that are shown; JSON has all."""


def findings(found: Sequence[Finding], skipped: Iterable[tuple[str, str]] = ()) -> Iterator[str]:
    """All of them."""
    ordered = [finding for group in by_advice(found) for finding in group]
    loud = [one for one in ordered if not isinstance(one.verdict, Yes) or one.verdict.needs]
    quiet = [one for one in ordered if one not in loud]
    if loud:
        yield f'<ul class="findings">{"".join(_finding(one, found) for one in loud)}</ul>'
    if quiet:
        count = "1 check says yes" if len(quiet) == 1 else f"{len(quiet)} checks say yes"
        yield folded(count, f'<ul class="findings">{"".join(_finding(one, found) for one in quiet)}</ul>')
    yield skips(skipped)


def skips(skipped: Iterable[tuple[str, str]]) -> str:
    """Checks that do not apply, with the reason; those with the same one together."""
    reasons: dict[str, list[str]] = {}
    for check, because in skipped:
        reasons.setdefault(because, []).append(check)
    count = sum(map(len, reasons.values()))
    rows = "".join(
        f"<dt>{text(', '.join(checks))}</dt><dd>{text(because)}</dd>" for because, checks in reasons.items()
    )
    does = "1 check does not apply" if count == 1 else f"{count} checks do not apply"
    return folded(does, f'<dl class="skips">{rows}</dl>' if rows else "")


def _finding(finding: Finding, among: Sequence[Finding]) -> str:
    return (
        f"<li><h4>{said(word(finding.verdict))} {text(name_of(finding, among))}</h4>"
        f"<p>{text(finding.verdict.because)}</p>{advised(finding.verdict)}{looks(finding.evidence)}</li>"
    )


def looks(evidence: Sequence[Evidence]) -> str:
    """Everything that was read, folded."""
    if not evidence:
        return ""
    rows = "".join(map(_look, evidence[:LOOKS]))
    if len(evidence) > LOOKS:
        rows += f"<li>and {len(evidence) - LOOKS} more: --format json has them</li>"
    count = "1 look" if len(evidence) == 1 else f"{len(evidence)} looks"
    return f'<details><summary>evidence: {count}</summary><ol class="looks">{rows}</ol></details>'


def _look(look: Evidence) -> str:
    cut = " (partial look)" if not look.whole else ""
    when = f" <span>{text(str(look.when))}</span>" if look.when else ""
    return f"<li><code>{text(look.subject)}</code> {text(look.how)}: {text(look.saw)}{cut}{when}</li>"
