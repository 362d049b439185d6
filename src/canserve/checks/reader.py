"""The reader a check sees the world through: what is read becomes the finding's evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from canserve.checks.case import Case
from canserve.facts import Evidence, Fact, Missing
from canserve.subjects.build import gguf_only
from canserve.verdict import Finding, Skipped, Verdict, Yes, undecided

T = TypeVar("T")


class Unread(Exception):  # noqa: N818 - not an error: the check ends here as unknown
    """A check read a missing fact."""

    def __init__(self, missing: Missing) -> None:
        super().__init__(missing.why)
        self.missing = missing


class NotApplicable(Exception):  # noqa: N818 - not an error: the check has nothing to judge here
    """A check does not apply to this case."""


class UnfoundedYesError(AssertionError):
    """A check said yes without having read anything."""


@dataclass
class Reader:
    """Records every fact that a check reads."""

    evidence: list[Evidence] = field(default_factory=list)

    def read(self, fact: Fact[T]) -> T:
        """The fact's value; ends the check as unknown when the fact is missing."""
        self.cite(fact.evidence)
        if isinstance(fact, Missing):
            raise Unread(fact)
        return fact.value

    def try_read(self, fact: Fact[T]) -> T | None:
        """The fact's value, or None when missing; for facts that only add to an answer."""
        self.cite(fact.evidence)
        return None if isinstance(fact, Missing) else fact.value

    def cite(self, evidence: Iterable[Evidence]) -> None:
        """Add looks, once each, in the order in which they were used."""
        for look in evidence:
            if look not in self.evidence:
                self.evidence.append(look)


@dataclass(frozen=True, slots=True)
class Claim:
    """A question with a fixed meaning. ``name`` is a claim; the ``run`` that each kind of check adds is pure."""

    name: str
    claim: str
    """One sentence for the check reference: what a yes means."""

    @property
    def needs_machine(self) -> bool:
        """Whether there is nothing to judge without a machine."""
        return False

    @property
    def needs_layout(self) -> bool:
        """Whether there is nothing to judge without a layout."""
        return False

    def found(self, about: str, ask: Callable[[Reader], Verdict]) -> Finding | Skipped:
        """What asking says: a fact that is missing makes it unknown, and a yes has read something."""
        reader = Reader()
        try:
            verdict = ask(reader)
        except NotApplicable as reason:
            return Skipped(self.name, about, str(reason))
        except Unread as unread:
            verdict = undecided(unread.missing)
        if isinstance(verdict, Yes) and not reader.evidence:
            raise UnfoundedYesError(f"{self.name} said yes about {about} without reading anything")
        return Finding(self.name, about, verdict, tuple(reader.evidence))


@dataclass(frozen=True, slots=True)
class Check(Claim):
    """A question about a model, a build and what it runs on."""

    run: Callable[[Reader, Case], Verdict]
    needs_machine: bool = False
    needs_layout: bool = False
    """Whether it judges a layout; without one there is nothing to say, not even that it was skipped."""
    of_checkpoints: bool = False
    """Whether it asks about what only checkpoints of the Hub have, and builds that load them."""
    of_accelerators: bool = False
    """Whether it asks what programs for accelerators need, which a build made for processors alone has not."""

    @property
    def when(self) -> str:
        """Where it is judged, for the check reference."""
        return "with a layout" if self.needs_layout else "with a machine" if self.needs_machine else "always"

    def judge(self, case: Case) -> Finding | Skipped:
        """Run the check on one case."""
        about = case.about(self.needs_machine, self.needs_layout)
        if self.needs_layout and case.deployment is None:
            return Skipped(self.name, about, "no layout was named")
        if self.needs_machine and case.machine is None:
            return Skipped(self.name, about, "no machine was named (--on)")
        if self.of_checkpoints and gguf_only(case.build):
            return Skipped(self.name, about, "the build serves GGUF files, which hold all of that themselves")
        if self.of_accelerators and case.on_processors:
            return Skipped(
                self.name, about, "the build holds no code for accelerators, and the machine has none"
            )
        return self.found(about, lambda reader: self.run(reader, case))
