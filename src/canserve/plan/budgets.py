"""How long each phase of a start may be still before that is worth a word: wall-clock budgets, from the plan.

A budget is no limit: a phase that is over it and moves goes on for as long as it likes. It only says from when on
silence means something, so every figure is generous.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from canserve.facts import Known
from canserve.plan.plan import Plan
from canserve.subjects.progress import PENDING, READY, UP

SLOWEST = 50e6
"""Bytes a second at which weights are read: a network file system or a slow SD card; disks of servers do 20 times."""
UNKNOWN_WEIGHTS = 1800.0
BLIND = 2.0
"""Where only the log is seen: what would have shown that it moves is not."""
BUSY = 5.0
"""Where nothing but processors moves: tracing and compiling look so, and so does spinning in a collective."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Seconds of one phase."""

    seconds: float
    why: str


_FIXED: Mapping[str, Budget] = {
    PENDING: Budget(60, "a container or session is made in seconds"),
    UP: Budget(300, "the engine and its libraries are imported; 40 s from a cold disk on two cores"),
    "launched": Budget(300, "the model's config and tokenizer are read, further processes import the engine again"),
    "configured": Budget(300, "further processes import the engine again; 32 s on two cores"),
    "engine": Budget(300, "workers import the engine again"),
    "connecting": Budget(60, "ranks that are all there join within seconds"),
    "met": Budget(60, "communicators of all groups; seconds, tens of them at hundreds of ranks"),
    "joined": Budget(300, "the model's modules are imported and its parameters allocated"),
    "loaded": Budget(900, "weights are repacked, the model is traced, compiled and run once"),
    "compiling": Budget(900, "a cold compilation takes minutes"),
    "cache": Budget(600, "kernels are built and tuned before the first batch"),
    "capturing": Budget(300, "one graph takes seconds, and each moves the bar"),
    READY: Budget(120, "the first answer follows within seconds"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Budgets:
    """Of every phase of one deployment."""

    loading: Budget = field(
        default_factory=lambda: Budget(UNKNOWN_WEIGHTS, "how many bytes are loaded is not known")
    )

    def of(self, phase: str, marked: Collection[str], order: Sequence[str]) -> Budget:
        """Of a phase, with those behind it that the engine would not tell from it.

        ``marked``: phases that lines of this engine's log tell; ``order``: all, from the first to the last.
        """
        phases = [phase]
        for each in order[order.index(phase) + 1 :] if phase in order else ():
            if each in marked or each == READY:
                break
            phases.append(each)
        found = [self._one(each) for each in phases]
        longest = max(found, key=lambda one: one.seconds)
        return Budget(sum(one.seconds for one in found), longest.why)

    def _one(self, phase: str) -> Budget:
        return self.loading if phase == "loading" else _FIXED.get(phase, Budget(0, ""))


def budgets(plan: Plan | None) -> Budgets:
    """Of a plan: the rank with the most weights, read at ``SLOWEST``."""
    if plan is None or not isinstance(plan.serving, Known):
        return Budgets()
    most = max((rank.weights.high for rank in plan.serving.value.ranks), default=0.0)
    if not most:
        return Budgets()
    why = f"{most / 1e9:.1f} GB of weights at {SLOWEST / 1e6:.0f} MB/s, the slowest that is used"
    return Budgets(Budget(120 + most / SLOWEST, why))
