"""A question about a deployment and the model that it reads on its machines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from canserve.checks.reader import Claim, Reader
from canserve.subjects.placed import ModelRead
from canserve.verdict import Finding, Skipped, Verdict


@dataclass(frozen=True, slots=True)
class ReadingCheck(Claim):
    """A question about one machine of a deployment."""

    run: Callable[[Reader, ModelRead, str], Verdict]

    @property
    def needs_machine(self) -> bool:
        """The machine that is looked at."""
        return True

    @property
    def when(self) -> str:
        """Where it is judged, for the check reference."""
        return "before a deployment starts (up)"

    def judge(self, it: ModelRead, machine: str) -> Finding | Skipped:
        """Run the check for one machine."""
        return self.found(machine, lambda reader: self.run(reader, it, machine))
