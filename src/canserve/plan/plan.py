"""A plan: one build on one layout, what it holds, how fast it is, how it is started, and what speaks against."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from canserve.facts import Cause, Fact, Missing
from canserve.memory.quantity import Quantity
from canserve.memory.request import Serving
from canserve.subjects.launch import Start
from canserve.subjects.parallel import Parallel, Placement
from canserve.verdict import Finding, Skipped, Verdict, worst

VERSION = 1
"""Of the file format."""
NOT_COMPUTED = Missing(Cause.UNREACHED, "not computed")


@dataclass(frozen=True, slots=True)
class Speed:
    """Expected tokens a second of the whole deployment, and the physical bound that no build can pass."""

    decode: Quantity
    """One sequence at a time."""
    decode_bound: float
    saturated: Quantity
    """As many sequences as fit or as the engine runs at once."""
    prefill: Quantity
    prefill_bound: float
    limit: str = ""
    """What decode waits for: ``memory bandwidth``, ``all-reduce over the network`` ..."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One candidate, judged. It can be printed, compared, saved and loaded."""

    model: str
    build: str
    """As the user named it, or the release the index gave."""
    engine: str
    version: str
    """Of the engine; empty where it is not known."""
    placement: Placement
    options: Mapping[str, object]
    """Engine options under the engine's own names."""
    serving: Fact[Serving]
    speed: Fact[Speed]
    start: Fact[Start]
    findings: tuple[Finding, ...]
    skipped: tuple[Skipped, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """The worst of its findings."""
        return worst(self.findings)

    @property
    def parallel(self) -> Parallel:
        """Its degrees."""
        return self.placement.parallel


@dataclass(frozen=True, slots=True)
class Illegal:
    """A layout that cannot be, the rule that forbids it, and what heals that."""

    parallel: Parallel
    rule: str
    heals: str
    build: str | None = None
    """Whose rule it is; None: of every build that was asked."""


@dataclass(frozen=True, slots=True)
class Curve:
    """How many sequences fit at once, by their length: (tokens, sequences)."""

    points: tuple[tuple[int, Quantity], ...]


@dataclass(frozen=True, slots=True)
class Plans:
    """The answer: candidates, best first, and what cannot be."""

    model: str
    goal: str
    plans: tuple[Plan, ...]
    illegal: tuple[Illegal, ...]
    notes: tuple[str, ...] = ()
    curve: Curve = field(default_factory=lambda: Curve(()))
    """Of the first plan."""
