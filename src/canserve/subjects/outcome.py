"""What has become of a deployment that was started."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from canserve.subjects.deployment import Seen
from canserve.subjects.progress import Stage

State = Literal["up", "starting", "stalled", "failed", "interrupted"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a wait for it has ended."""

    state: State
    """``starting``: not ready in the time given, and nothing says that it will not be; ``stalled``: it stands still."""
    why: str = ""
    """One line: what was seen."""
    hint: str = ""
    seen: tuple[Seen, ...] = ()
    """The last look."""
    kind: str | None = None
    """Of the cause, as ``diagnose`` names kinds; None: it could not be told."""
    name: str | None = None
    """The finer name within the kind."""
    told: tuple[str, ...] = ()
    """Lines for a person: what was seen on each rank."""
    because: str = ""
    """What the cause means; empty: it could not be told."""
    fix: str = ""
    """What would heal the cause; empty: nothing is known to."""
    stages: tuple[Stage, ...] = ()
    """How far every rank came, and when."""
    seconds: float = 0.0
    """That it was waited for."""
