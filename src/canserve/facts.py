"""Facts: what is known, what is missing and why, and the looks at the world behind both.

"Looked, and it is not there" is ``Known(None)``; only "could not look" is ``Missing``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Generic, TypeAlias, TypeVar

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True, slots=True)
class Evidence:
    """One look at the world, enough to repeat it by hand."""

    subject: str
    """What was looked at, as the user would name it: ``vllm==0.14.0``, ``profile:h200``."""
    how: str
    """``path``, ``path:line`` inside the subject, or the argv that was run."""
    saw: str
    """What was seen there, in a few words."""
    whole: bool = True
    """False when the look was cut short, failed half-way or was partial."""
    when: str | None = None
    """UTC, ISO 8601, where the moment matters (an index page, a running machine)."""


class Cause(StrEnum):
    """Why a fact is missing."""

    UNREACHED = "unreached"
    """Never got there: no network, host down, not asked for, offline."""
    UNAVAILABLE = "unavailable"
    """Got there, but it would not answer: permission, 404 for a file that must exist, a stub."""
    UNREADABLE = "unreadable"
    """It answered, but the answer could not be understood: corrupt, cut, unknown form."""


@dataclass(frozen=True, slots=True)
class Known(Generic[T]):
    """A value that was read, with the looks that gave it."""

    value: T
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True)
class Missing:
    """A value that could not be read. ``why`` is one line; ``ask`` says what would settle it."""

    cause: Cause
    why: str
    evidence: tuple[Evidence, ...] = ()
    ask: str | None = None


Fact: TypeAlias = Known[T] | Missing


def derive(fact: Fact[T], change: Callable[[T], U]) -> Fact[U]:
    """The same look with its value changed by a pure function; a missing fact stays missing."""
    match fact:
        case Known(value, evidence):
            return Known(change(value), evidence)
        case Missing():
            return fact


def partial(evidence: Evidence) -> Evidence:
    """The same look, marked as not whole."""
    return replace(evidence, whole=False)
