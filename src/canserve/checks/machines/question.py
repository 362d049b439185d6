"""A question about machines that serve together, and its verdict over all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from canserve.checks.reader import Claim, NotApplicable, Reader, Unread
from canserve.subjects.cluster import Cluster, Node
from canserve.verdict import Finding, No, Skipped, Unknown, Verdict, Yes, undecided

ALONE = "one machine serves alone"
NOBODY_LOOKED = "known from a profile or a file alone: only a look at the machine says it"


@dataclass(frozen=True, slots=True)
class ClusterCheck(Claim):
    """A question about machines.

    ``run`` sees only machines that were reached: what holds of them is unknown of the others.
    """

    run: Callable[[Reader, Cluster], Verdict]
    of_several: bool = False
    """Whether it is about how machines go together; of one alone there is nothing to say."""
    of_plans: bool = False
    """Whether it decides about serving over several machines, whatever runs there now."""
    of_unreached: bool = False
    """Whether it is also asked of machines that could not be reached."""

    @property
    def needs_machine(self) -> bool:
        """As a check of builds has it."""
        return True

    @property
    def when(self) -> str:
        """Where it is judged, for the check reference."""
        return "with several machines" if self.of_several else "with a machine that is looked at"

    def judge(self, cluster: Cluster) -> Finding | Skipped:
        """Run the check on these machines."""
        about = ", ".join(node.name for node in cluster.nodes)
        looked = [node for node in cluster.nodes if node.looked_at]
        if not looked:
            return Skipped(self.name, about, NOBODY_LOOKED)
        if self.of_several and len(cluster.nodes) < 2:
            return Skipped(self.name, about, ALONE)
        reached = tuple(node for node in looked if node.machine.reached or self.of_unreached)
        if self.of_several and 0 < len(reached) == len(looked) < 2:
            return Skipped(self.name, about, NOBODY_LOOKED)
        away = [node.name for node in looked if node not in reached]
        return self.found(about, lambda reader: self._over(reader, replace(cluster, nodes=reached), away))

    def _over(self, reader: Reader, reached: Cluster, away: Sequence[str]) -> Verdict:
        enough = len(reached.nodes) >= (2 if self.of_several else 1)
        verdict: Verdict | None = None
        try:
            verdict = self.run(reader, reached) if enough else None
        except Unread as unread:
            verdict = undecided(unread.missing)
        except NotApplicable:
            if not away:
                raise
        if away and (verdict is None or isinstance(verdict, Yes)):
            return Unknown(f"{', '.join(away)}: not reached, so that nothing is known of it", "see reachable")
        assert verdict is not None
        return verdict


def each(reader: Reader, nodes: Sequence[Node], ask: Callable[[Reader, Node], Verdict]) -> Verdict:
    """The same question to every machine, and what the answers are together: the worst, with the machines' names.

    Machines to which it does not apply are left out; raises NotApplicable where that is all of them.
    """
    found: list[tuple[str, Verdict]] = []
    not_here: list[str] = []
    for node in nodes:
        try:
            found.append((node.name, ask(reader, node)))
        except NotApplicable as reason:
            not_here.append(str(reason))
        except Unread as unread:
            missing = unread.missing
            why = missing.why.removeprefix(f"{node.machine.subject}: ")
            found.append((node.name, Unknown(why, missing.ask or f"make it readable on {node.name}")))
    if not found:
        raise NotApplicable(not_here[0] if not_here else NOBODY_LOOKED)
    alone = len(nodes) == 1
    if nos := [(name, it) for name, it in found if isinstance(it, No)]:
        return No(_said(nos, alone), "; ".join(dict.fromkeys(it.fix for _, it in nos)))
    if unknown := [(name, it) for name, it in found if isinstance(it, Unknown)]:
        return Unknown(_said(unknown, alone), "; ".join(dict.fromkeys(it.ask for _, it in unknown)))
    yes = [(name, it) for name, it in found if isinstance(it, Yes)]
    needs = tuple(dict.fromkeys(need for _, it in yes for need in it.needs))
    return Yes(_said(yes, alone), needs)


def _said(found: Iterable[tuple[str, Yes | No | Unknown]], alone: bool) -> str:
    """``head, second: the same; third: something else``."""
    names: dict[str, list[str]] = {}
    for name, verdict in found:
        names.setdefault(verdict.because, []).append(name)
    return "; ".join(because if alone else f"{', '.join(of)}: {because}" for because, of in names.items())
