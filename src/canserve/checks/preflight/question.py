"""A question about a preflight, judged from what it recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from canserve.checks.reader import NotApplicable, Reader, UnfoundedYesError, Unread
from canserve.subjects.cluster import Cluster
from canserve.subjects.preflight import PHASES, Preflight, Rank
from canserve.verdict import Finding, Skipped, Unknown, Verdict, Yes


@dataclass(frozen=True, slots=True)
class PreflightCheck:
    """A question with a fixed meaning. ``name`` is a claim; ``run`` is pure."""

    name: str
    claim: str
    """One sentence for the check reference: what a yes means."""
    run: Callable[[Reader, Cluster, Preflight], Verdict]
    needs_machine: bool = True
    needs_layout: bool = False

    @property
    def when(self) -> str:
        """Where it is judged, for the check reference."""
        return "with a preflight (machine --preflight)"

    def judge(self, cluster: Cluster) -> Finding | Skipped:
        """Run the check on what the preflight of these machines recorded."""
        about = ", ".join(node.name for node in cluster.nodes)
        reader = Reader()
        try:
            verdict = self.run(reader, cluster, reader.read(cluster.preflight))
        except NotApplicable as reason:
            return Skipped(self.name, about, str(reason))
        except Unread as unread:
            missing = unread.missing
            verdict = Unknown(missing.why, missing.ask or f"make it readable: {missing.why}")
        if isinstance(verdict, Yes) and not reader.evidence:
            raise UnfoundedYesError(f"{self.name} said yes about {about} without reading anything")
        return Finding(self.name, about, verdict, tuple(reader.evidence))


def came_to(rank: Rank) -> int:
    """How far it came, as a number that grows."""
    return PHASES.index(rank.phase)


def passed(flight: Preflight, phase: str) -> bool:
    """Whether every rank went beyond a phase."""
    return all(came_to(rank) > PHASES.index(phase) for rank in flight.ranks)


def standing(flight: Preflight) -> tuple[Rank, ...]:
    """Ranks that did not come to their end: the least far first, then who ended first, as others fail by that."""
    still = (rank for rank in flight.ranks if not rank.whole)
    return tuple(sorted(still, key=lambda rank: (came_to(rank), rank.state == "cut", rank.ended)))


def where(ranks: tuple[Rank, ...]) -> str:
    """Each of them in a few words."""
    return "; ".join(map(str, ranks))


def only_after(flight: Preflight, phase: str, check: str) -> None:
    """Ends a check for which the ranks did not come far enough; another says why."""
    if not passed(flight, phase):
        raise NotApplicable(f"the ranks did not come that far: see {check}")
