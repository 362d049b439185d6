"""A constraint on layouts: what it claims, and what it rules about one set of degrees."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from canserve.facts import Evidence, Missing
from canserve.layout.question import Question
from canserve.subjects.parallel import Parallel
from canserve.verdict import No, Unknown, Verdict, Yes, undecided


class Looked(Protocol):
    """Whatever was looked at: a fact of any type, known or missing."""

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """The looks."""
        ...


@dataclass(frozen=True, slots=True)
class Ruling:
    """What a constraint says of one set of degrees, and what it read for that."""

    verdict: Verdict
    evidence: tuple[Evidence, ...]
    heals: tuple[str, ...] = ()
    """What would heal a no, besides other degrees of parallelism."""


ELSE = "use other degrees of parallelism"

Judge = Callable[[Question, Parallel], Ruling | None]
"""None: the constraint does not concern this model or these degrees."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """One rule that a layout has to keep. ``name`` is a claim, as a check's is."""

    name: str
    claim: str
    judge: Judge
    axes: frozenset[str]
    """The degrees that it looks at, of ``tp``, ``pp``, ``dp``, ``ep``: others do not change its ruling."""
    tensor: bool = True
    """Whether another tensor parallel size may heal it."""


def yes(because: str, *facts: Looked) -> Ruling:
    """The claim holds, by these facts."""
    return Ruling(Yes(because), _looks(facts))


def no(because: str, *facts: Looked, heals: tuple[str, ...] = ()) -> Ruling:
    """The claim does not hold; each of ``heals`` would heal it, and so may other degrees."""
    return Ruling(No(because, " or ".join(heals) or ELSE), _looks(facts), heals)


def unknown(because: str, ask: str, *facts: Looked) -> Ruling:
    """It could not be decided."""
    return Ruling(Unknown(because, ask), _looks(facts))


def uneven(
    question: Question, what: str, because: str, *facts: Looked, heals: tuple[str, ...] = ()
) -> Ruling:
    """Parts come out unequal: refused, unless the engine takes that or is not known to need equal ones."""
    strict = question.strict(what)
    if isinstance(strict, Missing):
        return unknown(f"{because}; {strict.why}", strict.ask or "start it once", *facts, strict)
    if strict.value:
        return no(because, *facts, strict, heals=heals)
    return yes(f"{because}, which this engine takes", *facts, strict)


def missing(fact: Missing) -> Ruling:
    """A fact that is needed could not be read."""
    return Ruling(undecided(fact), fact.evidence)


def _looks(facts: Iterable[Looked]) -> tuple[Evidence, ...]:
    return tuple(dict.fromkeys(look for fact in facts for look in fact.evidence))
