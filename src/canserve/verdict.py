"""Verdicts: yes, no or unknown, never a bool; and findings, which pair a verdict with its evidence."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NoReturn, TypeAlias

from canserve.facts import Evidence, Missing


class _NoBool:
    """A verdict in an ``if`` is always a mistake: unknown is neither true nor false."""

    __slots__ = ()

    def __bool__(self) -> NoReturn:
        raise TypeError(f"{type(self).__name__} is a verdict, not a bool: match on Yes, No, Unknown")


@dataclass(frozen=True, slots=True)
class Yes(_NoBool):
    """The claim holds. ``needs`` are conditions the user controls, such as ``transformers>=5.5.1``."""

    because: str
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class No(_NoBool):
    """The claim does not hold. ``fix`` is the one change that would turn it into a yes."""

    because: str
    fix: str


@dataclass(frozen=True, slots=True)
class Unknown(_NoBool):
    """It could not be decided. ``ask`` says what would settle it."""

    because: str
    ask: str


Verdict: TypeAlias = Yes | No | Unknown


def undecided(missing: Missing) -> Unknown:
    """The verdict on what could not be read."""
    return Unknown(missing.why, missing.ask or f"make it readable: {missing.why}")


def advice(verdict: Verdict) -> tuple[Literal["fix", "ask", "with"], tuple[str, ...]]:
    """What it asks to be done: the one fix, the one question, or all conditions; empty: nothing."""
    match verdict:
        case No(fix=fix):
            return "fix", (fix,) if fix else ()
        case Unknown(ask=ask):
            return "ask", (ask,) if ask else ()
        case Yes(needs=needs):
            return "with", needs


@dataclass(frozen=True, slots=True)
class Finding:
    """One check about one subject (or pair), its verdict, and everything that was read for it."""

    check: str
    about: str
    verdict: Verdict
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True)
class Skipped:
    """A check that did not apply here, and why. It counts neither as passed nor as failed."""

    check: str
    about: str
    because: str


Word: TypeAlias = Literal["yes", "no", "unknown"]


def word(verdict: Verdict) -> Word:
    """``yes``, ``no`` or ``unknown``."""
    match verdict:
        case Yes():
            return "yes"
        case No():
            return "no"
        case Unknown():
            return "unknown"


_ORDER: dict[Word, int] = {"no": 0, "unknown": 1, "yes": 2}


def worst_word(words: Iterable[Word]) -> Word:
    """The minimum of ``no < unknown < yes``; of nothing at all it is ``unknown``."""
    return min(words, key=_ORDER.__getitem__, default="unknown")


def worst(findings: Iterable[Finding]) -> Verdict:
    """The verdict of the worst finding; the first one where several are equally bad.

    An empty list of findings proves nothing and is ``Unknown``.
    """
    return min(
        (finding.verdict for finding in findings),
        key=lambda verdict: _ORDER[word(verdict)],
        default=Unknown("no check could be applied", "name a model and a build that can be read"),
    )
