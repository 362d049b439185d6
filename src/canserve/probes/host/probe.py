"""What a probe is, and how its parser says what it saw."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from canserve.facts import Cause, Evidence, Fact, Known, Missing
from canserve.transport.frames import Answer

T = TypeVar("T")

NOT_FOUND = 127
"""Exit status of a shell for a program that is not there."""
WITH_SMI = f"command -v nvidia-smi >/dev/null 2>&1 || exit {NOT_FOUND}\n"
"""Before what asks NVIDIA's tool: most machines without it are told so without a process."""
LATE = (124, 137)
"""Exit status of ``timeout`` for a program that it had to end."""
_SAID = 160


@dataclass(frozen=True, slots=True)
class Seen:
    """A section's answer, with what evidence of it needs."""

    subject: str
    how: str
    """The command or path, for a person who wants to repeat it."""
    when: str | None
    answer: Answer

    def evidence(self, saw: str | None = None) -> Evidence:
        """The look; what was seen is the beginning of the answer unless said otherwise."""
        said = " / ".join(line.strip() for line in self.answer.text.splitlines() if line.strip())
        saw = saw if saw is not None else said
        return Evidence(self.subject, self.how, saw[:_SAID] or "nothing", self.answer.whole, self.when)

    def known(self, value: T, saw: str | None = None) -> Known[T]:
        """A value that was read."""
        return Known(value, (self.evidence(saw),))

    def missing(self, cause: Cause, why: str, ask: str | None = None) -> Missing:
        """Why there is no value."""
        answer = self.answer
        saw = answer.complaint if answer.status or not answer.out else None
        return Missing(cause, f"{self.subject}: {why}", (self.evidence(saw),), ask)

    def unreadable(self, what: str) -> Missing:
        """It answered in a form that is not known."""
        first = next((line.strip() for line in self.answer.text.splitlines() if line.strip()), "nothing")
        return self.missing(Cause.UNREADABLE, f"unknown form of {what}: {first[:80]!r}")

    def failed(self, tool: str) -> Missing:
        """A tool that is there and did not answer."""
        if self.answer.status in LATE:
            why = f"{self.subject}: {tool} did not answer in time"
            look = replace(self.evidence(self.answer.complaint), whole=False)  # it has said nothing
            return Missing(Cause.UNAVAILABLE, why, (look,), f"look why {tool} hangs")
        return self.missing(Cause.UNAVAILABLE, f"{tool} failed: {self.answer.complaint}")

    @property
    def rows(self) -> list[str]:
        """The lines that say something, in order; a section's bound is theirs."""
        return [line.strip() for line in self.answer.text.splitlines() if line.strip()]


@dataclass(frozen=True, slots=True)
class Probe:
    """One question: its section, how a person repeats it, and its parser."""

    name: str
    script: str
    how: str
    parse: Callable[[Seen], Fact[Any]]
    limit: int = 64_000
    before: str = ""
    quick: bool = False
    """Both as in ``Section``."""


def tabular(row: str, width: int) -> list[str] | None:
    """The columns of a tab-separated row, if it has so many."""
    columns = row.split("\t")
    return [column.strip() for column in columns] if len(columns) == width else None
