"""A plan: one build on one layout, what it holds, how fast it is, how it is started, and what speaks against."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from canserve.facts import Cause, Fact, Missing
from canserve.memory.quantity import Quantity
from canserve.memory.request import Serving
from canserve.subjects.launch import Start
from canserve.subjects.parallel import Illegal, Parallel, Placement
from canserve.verdict import Finding, No, Skipped, Unknown, Verdict, worst

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
class Unread:
    """A build that could not be read, and so is part of no plan."""

    build: str
    why: str
    ask: str


@dataclass(frozen=True, slots=True)
class Variant:
    """The best plan with something changed."""

    change: Mapping[str, object]
    """Engine options, or ``build``."""
    plan: Plan


@dataclass(frozen=True, slots=True)
class Plans:
    """The answer: candidates, best first, and what cannot be."""

    model: str
    goal: str
    plans: tuple[Plan, ...]
    illegal: tuple[Illegal, ...] = ()
    curve: tuple[tuple[int, Quantity], ...] = ()
    """Of the first plan: how many sequences fit at once, by their length in tokens."""
    what_if: tuple[Variant, ...] = ()
    notes: tuple[str, ...] = ()
    unread: tuple[Unread, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """That of the best plan; a build that could not be read leaves open whether there is a better one.

        Where no layout is legal, a no with the first rule that forbids one.
        """
        if self.plans and not (self.unread and isinstance(self.plans[0].verdict, No)):
            return self.plans[0].verdict
        if self.unread:
            return Unknown(f"{self.unread[0].build}: {self.unread[0].why}", self.unread[0].ask)
        if self.illegal:
            first = self.illegal[0]
            return No(f"no layout is legal: {first.because}", first.heals)
        return Unknown("no plan could be made", "name a build that can be read and a machine that is known")

    def best(self) -> Plans:
        """The first plan alone."""
        return replace(self, plans=self.plans[:1], illegal=(), what_if=())

    def candidates(self) -> Plans:
        """All that can be tried, and those that say no: what is saved to be put into service."""
        return replace(self, illegal=(), what_if=())
