"""How far a verification has come: its parts, what each found so far, the pace now, and the ranks behind the endpoint."""

from __future__ import annotations

from dataclasses import dataclass

from canserve.verdict import Word


@dataclass(frozen=True, slots=True)
class Part:
    """Some of the questions, asked together, and the checks that judge what came."""

    name: str
    checks: tuple[str, ...]
    begun: bool = False
    done: int = 0
    """Requests that have come to an end."""
    total: int = 0
    """Requests that are planned."""
    detail: str = ""
    """What of it is being asked: ``8 at once``."""
    seconds: float | None = None
    """How long it took; None: it has not ended."""
    found: Word | None = None
    """The worst of its checks so far; None: it has not ended, or none of them applied."""
    said: str = ""
    """Its checks that say yes, or the reason of the first that does not."""


@dataclass(frozen=True, slots=True)
class Pace:
    """What passes between here and the server now."""

    at_once: int = 0
    """Requests that are open."""
    tokens: float | None = None
    """Streamed tokens a second, over the last second or so; None: nothing is streamed."""
    first: float | None = None
    """Seconds to the first token of the last stream that had one."""


@dataclass(frozen=True, slots=True)
class RankNow:
    """A process of the deployment at the last look."""

    process: int
    ranks: tuple[int, ...]
    """Empty: it only joins machines."""
    machine: str
    alive: bool | None
    """None: it could not be seen."""
    state: str
    """In words: ``running``, ``exited with 1``."""
    phase: str = ""
    """How far its log says that it has come, in words."""
    processors: float | None = None
    """Processors that it kept busy since the look before."""
    accelerator: int | None = None
    """Bytes in use on the accelerators of its machine."""

    @property
    def who(self) -> str:
        """``rank 0,1`` or ``process 2``."""
        return f"rank {','.join(map(str, self.ranks))}" if self.ranks else f"process {self.process}"


@dataclass(frozen=True, slots=True)
class Inquiry:
    """A verification at one moment."""

    at: float
    """Seconds since it began."""
    parts: tuple[Part, ...]
    pace: Pace
    ranks: tuple[RankNow, ...] = ()

    @property
    def current(self) -> Part | None:
        """The part that is being asked."""
        return next((part for part in self.parts if part.begun and part.seconds is None), None)

    @property
    def ended(self) -> tuple[Part, ...]:
        """Those that have ended."""
        return tuple(part for part in self.parts if part.seconds is not None)
