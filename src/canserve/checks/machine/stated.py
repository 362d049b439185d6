"""The machine of a case, and facts that a profile need not state."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from canserve.checks.case import Case
from canserve.checks.reader import NotApplicable, Reader
from canserve.facts import Cause, Fact, Missing

if TYPE_CHECKING:
    from canserve.subjects.machine import Machine


T = TypeVar("T")

COMPILED = "its compiled files were not read"
NOT_AROUND = "what lies around it was not read"


def machine_of(case: Case) -> Machine:
    """The machine; a check with ``needs_machine`` is only run with one."""
    if case.machine is None:
        raise NotApplicable("no machine was named (--on)")
    return case.machine


def read_compiled(reader: Reader, fact: Fact[T]) -> T:
    """A fact of a build's compiled files; where nobody looked at them, the check does not apply."""
    if isinstance(fact, Missing) and fact.cause is Cause.UNREACHED:
        raise NotApplicable(f"{COMPILED}: {fact.why}")
    return reader.read(fact)


def read_around(reader: Reader, fact: Fact[T]) -> T:
    """A fact of what a build stands on; where nobody looked, or could without more, the check does not apply."""
    if isinstance(fact, Missing) and fact.cause is Cause.UNREACHED:
        raise NotApplicable(f"{NOT_AROUND}: {fact.why}")
    return reader.read(fact)


def read_stated(reader: Reader, fact: Fact[T], otherwise: str) -> T:
    """A fact that profiles may leave open: unstated, the check does not apply and says what is needed.

    A machine that could not be looked at still makes the answer unknown.
    """
    if isinstance(fact, Missing) and fact.cause is Cause.UNAVAILABLE:
        reader.cite(fact.evidence)
        raise NotApplicable(f"{fact.why}; {otherwise}")
    return reader.read(fact)
