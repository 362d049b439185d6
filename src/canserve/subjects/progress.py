"""How far a deployment that starts has come: what is seen of it, and what that comes down to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

PENDING, UP, READY, ANSWERED = "pending", "up", "ready", "serving"
WORDS: Mapping[str, str] = {
    PENDING: "not there yet",
    UP: "process up",
    "launched": "engine process",
    "configured": "config read",
    "engine": "engine made",
    "connecting": "ranks joining",
    "met": "ranks joined",
    "joined": "communicator ready",
    "loading": "weights",
    "loaded": "weights loaded",
    "compiling": "compiling",
    "cache": "memory profiled",
    "capturing": "graphs",
    READY: "ready",
    ANSWERED: "first token",
    "stopping": "stopping",
}
"""Phases as people call them; the keys are those of ``rules/phases.toml``, and two before them."""


@dataclass(frozen=True, slots=True)
class Count:
    """A progress bar of a phase."""

    phase: str
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Told:
    """What one process has written so far."""

    phases: Mapping[int | None, frozenset[str]] = field(default_factory=dict)
    """Every phase by rank; None: of those of its lines that name no rank."""
    counts: Mapping[int | None, Count] = field(default_factory=dict)
    news: int = 0
    """Lines so far that were more than waiting."""
    last: str = ""
    """The last line that says anything."""
    facts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """``world``, ``address``, ``advertised`` ...: every value once, in order."""

    def of(self, rank: int | None, order: Mapping[str, int]) -> tuple[str, ...]:
        """The phases of one of its ranks, in their order: those it said itself, and those of the whole process."""
        found = {phase for each in (rank, None) for phase in self.phases.get(each, ())}
        return tuple(sorted(found, key=lambda phase: order[phase]))


@dataclass(frozen=True, slots=True)
class Counters:
    """What the kernel counts of a process and all below it; None: it would not say."""

    cpu: float = 0.0
    """Seconds of processor time."""
    memory: int = 0
    """Resident bytes."""
    read: int | None = None
    """Bytes read, from disks or through the page cache."""
    written: int | None = None
    """Bytes written: what is downloaded, for one."""
    faults: int = 0
    """Pages that came from a disk when they were touched."""
    builders: int = 0
    """Compilers that run."""
    accelerator: int | None = None
    """Bytes in use on the accelerators of its machine."""
    processes: int = 0


_KILLED = frozenset((128 + 9, 128 + 15))
"""As shells and container engines count SIGKILL and SIGTERM; who aborts (SIGABRT) does so itself."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One process of a deployment at one moment."""

    process: int
    machine: str
    ranks: tuple[int, ...]
    """Empty: it only joins machines."""
    seen: bool = True
    """False: its machine could not be looked at."""
    alive: bool | None = None
    """None: it could not be seen whether it is."""
    state: str = ""
    """How it ended, in words."""
    code: int | None = None
    """Status with which it ended; None: it has not, or nobody knows."""
    told: Told = field(default_factory=Told)
    counters: Counters | None = None
    speaks: bool = True
    """Whether its log tells phases; one that only joins machines, or works for another, has none."""

    lasting: Mapping[int, str] | None = None
    """Below it: processes that live as long as it does, by number, with their titles; None: not all were seen."""

    @property
    def killed(self) -> bool:
        """Whether it was ended from outside: by the kernel for want of memory, or by somebody."""
        return self.alive is False and (self.code in _KILLED or self.state.startswith("killed"))


@dataclass(frozen=True, slots=True)
class Stage:
    """One rank on its way."""

    process: int
    machine: str
    rank: int | None
    """None: the process only joins machines."""
    phase: str
    since: float
    """Seconds since the watch began."""
    moved: float
    """When something of it moved last."""
    sign: str = ""
    """What that was."""
    busy: float = 0.0
    """When its processors were busy last."""
    count: Count | None = None
    rate: float | None = None
    """Bytes read a second, over the last look."""
    last: str = ""
    history: tuple[tuple[str, float], ...] = ()
    """Every phase that it entered, and when."""

    @property
    def who(self) -> str:
        """``rank 3`` or ``process 0``."""
        return f"process {self.process}" if self.rank is None else f"rank {self.rank}"

    @property
    def words(self) -> str:
        """Its phase as people call it: ``weights 3 of 14``."""
        said = WORDS.get(self.phase, self.phase)
        if self.count is not None and self.count.phase == self.phase:
            return f"{said} {self.count.done} of {self.count.total}"
        return said


@dataclass(frozen=True, slots=True)
class Standstill:
    """Why it is said to stand."""

    phase: str
    budget: float
    why: str
    """Where the budget comes from."""
    over: float
    """Seconds since the budget was spent."""
    quiet: float
    """Seconds since anything of any rank moved."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a watch knows after a look."""

    at: float
    """Seconds since it began."""
    stages: tuple[Stage, ...]
    changed: tuple[Stage, ...] = ()
    """Those that entered another phase with this look."""
    ended: tuple[Sample, ...] = ()
    """Processes that are no more, or of which a rank's own process is none any more."""
    standstill: Standstill | None = None
