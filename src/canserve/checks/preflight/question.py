"""A question about a preflight, judged from what it recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from canserve.checks.reader import Claim, NotApplicable, Reader
from canserve.subjects.cluster import Cluster
from canserve.subjects.preflight import PHASES, Preflight, Rank
from canserve.verdict import Finding, Skipped, Verdict


@dataclass(frozen=True, slots=True)
class PreflightCheck(Claim):
    """A question about machines on which a preflight ran."""

    run: Callable[[Reader, Cluster, Preflight], Verdict]

    @property
    def needs_machine(self) -> bool:
        """The machines on which it ran."""
        return True

    @property
    def when(self) -> str:
        """Where it is judged, for the check reference."""
        return "with a preflight (machine --preflight)"

    def judge(self, cluster: Cluster) -> Finding | Skipped:
        """Run the check on what the preflight of these machines recorded."""
        about = ", ".join(node.name for node in cluster.nodes)
        return self.found(about, lambda reader: self.run(reader, cluster, reader.read(cluster.preflight)))


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
