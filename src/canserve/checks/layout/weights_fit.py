"""weights-fit: what a rank holds of the weights leaves room within what the engine may use."""

from __future__ import annotations

from canserve.checks.case import Case
from canserve.checks.layout.deployed import gib, name_of, occupied, placed, within
from canserve.checks.reader import Check, Reader
from canserve.verdict import No, Unknown, Verdict, Yes

FIX = "spread it over more accelerators, or take a checkpoint with fewer bits"


def run(reader: Reader, case: Case) -> Verdict:
    """The verdict of ``weights-fit``, of the rank that is worst off."""
    found = reader.read(placed(case).serving)
    doubt: Unknown | None = None
    for at, rank in enumerate(found.ranks):
        verdict = within(
            occupied(rank), rank.budget, f"{name_of(case, at)} holds weights and CUDA's own", FIX
        )
        if isinstance(verdict, Yes) and rank.load_peak is not None:
            verdict = within(rank.load_peak, rank.total, f"{name_of(case, at)} peaks while loading", FIX)
        if isinstance(verdict, No):
            return verdict
        if isinstance(verdict, Unknown):
            doubt = verdict if doubt is None else doubt
    most = max(found.ranks, key=lambda rank: rank.weights.value)
    words = "each rank holds" if len(found.ranks) > 1 else "it holds"
    if doubt is not None:
        return doubt
    return Yes(f"{words} at most {gib(most.weights)} of weights within {gib(most.budget)}")


CHECK = Check(
    "weights-fit",
    "Every rank's share of the weights fits into what the engine may use of the accelerator, while loading too.",
    run,
    needs_layout=True,
)
