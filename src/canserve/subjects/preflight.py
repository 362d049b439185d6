"""What a preflight recorded: where every rank of a small program came to, what it measured, and what was tried then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from canserve.facts import Cause, Missing
from canserve.subjects.host import Told
from canserve.units import Bytes, Rate

NOT_RUN = Missing(
    Cause.UNREACHED, "no preflight was run", ask="canserve machine CLUSTER --preflight --in BUILD"
)
PHASES = ("start", "import", "device", "store", "meet", "bootstrap", "connect", "first", "later", "end")
"""In the order in which a rank passes them. ``later``: whatever comes after the first collective."""


@dataclass(frozen=True, slots=True)
class Rank(Told):
    """One process of the program, and where it came to."""

    number: int
    node: str
    step: str
    """The last one that it began, ``all_reduce 1048576``; ``end``: it did them all."""
    state: str
    """``done``; ``stalled``: its time was over; ``failed``: it ended by itself; ``cut``: nothing more was heard."""
    said: str = ""
    """Why, in its own last words."""
    stack: tuple[str, ...] = ()
    """Where it stood, innermost first, of one that stalled."""
    absent: tuple[int, ...] = ()
    """Ranks that it was still waiting for when it met the others."""
    address: str | None = None
    """Under which the others look for it."""
    interface: str | None = None
    """By which that was chosen: an interface, or in words."""
    reached: Mapping[int, str] = field(default_factory=dict)
    """What became of a plain connection to the address of each other: ``ok``, ``refused``, ``silent`` ..."""
    told: Mapping[str, str] = field(default_factory=dict)
    """What it said of itself: ``torch``, ``nccl``, ``name`` of its device ..."""
    notes: tuple[str, ...] = ()
    """Lines of the collective library that say what it chose."""
    ended: float = 0.0
    """When it stalled or failed, by its machine's clock, seconds since the epoch."""

    @property
    def phase(self) -> str:
        """How far it came. NCCL does several things in one call: its own lines tell them apart."""
        name = self.step.split(" ")[0]
        if name == "head":  # waits until the first rank has its store
            return "store"
        if name == "connect" and self.state != "done" and "nccl" in self.told:
            return "connect" if any(" via " in note for note in self.notes) else "bootstrap"
        return name if name in PHASES else "later"

    @property
    def whole(self) -> bool:
        """Whether it came to its end."""
        return self.step == "end" and self.state == "done"

    def __str__(self) -> str:
        where = (
            "all steps done"
            if self.whole
            else f"{self.state} in {self.phase if self.step == 'connect' else self.step}"
        )
        said = f": {self.said}" if self.said and not self.whole else ""
        at = f", at {self.stack[0]}" if self.stack else ""
        return f"rank {self.number} on {self.node}: {where}{said}{at}"


@dataclass(frozen=True, slots=True)
class Measure(Told):
    """A collective of one size, or two ranks alone."""

    op: str
    """``all_reduce``, ``broadcast``, ``pair``."""
    size: Bytes
    seconds: float
    """Of one, as the slowest rank saw it."""
    world: int
    right: bool
    pair: tuple[int, int] | None = None
    latency: float | None = None
    """Seconds, of 8 bytes one way; of pairs alone."""

    @property
    def bus(self) -> Rate:
        """Bytes a second on each link: what NCCL's own tests call bus bandwidth."""
        share = 2 * (self.world - 1) / self.world if self.op == "all_reduce" else 1.0
        return Rate(int(self.size.count * share / self.seconds) if self.seconds > 0 else 0)

    def __str__(self) -> str:
        who = f"ranks {self.pair[0]} and {self.pair[1]}" if self.pair else f"{self.op} of {self.size}"
        time = self.latency if self.latency is not None else self.seconds
        wrong = "" if self.right else ", WRONG RESULT"
        return f"{who}: {time * 1e6:.3g} us, {self.bus}{wrong}"


@dataclass(frozen=True, slots=True)
class Channel(Told):
    """How two ranks talk, as the collective library says it."""

    source: int
    target: int
    via: str
    """``NET/IB``, ``NET/Socket``, ``P2P``, ``SHM``."""

    def __str__(self) -> str:
        return f"{self.source} to {self.target} via {self.via}"


@dataclass(frozen=True, slots=True)
class Kernel(Told):
    """One small kernel on one machine."""

    node: str
    name: str
    state: str
    """``done``, ``failed``, ``stalled``, ``absent``: the accelerator does not have it."""
    said: str = ""

    def __str__(self) -> str:
        return f"{self.name} on {self.node}: {self.state}{': ' + self.said if self.said else ''}"


@dataclass(frozen=True, slots=True)
class Trial(Told):
    """Two ranks alone once more, with one thing changed."""

    ranks: tuple[int, int]
    change: str
    """``nothing``, or what was changed: ``NCCL_IB_DISABLE=1``."""
    healed: bool
    """Whether both came to the end."""
    stood: str
    """Where they stood else."""

    def __str__(self) -> str:
        how = "passes" if self.healed else self.stood
        return f"ranks {self.ranks[0]} and {self.ranks[1]} alone, {self.change} changed: {how}"


@dataclass(frozen=True, slots=True)
class Preflight:
    """One run of the program on all machines."""

    inside: tuple[str, ...]
    """The environments or images, one for each machine, in their order."""
    backend: str
    """``nccl`` or ``gloo``."""
    master: str
    """Address and port at which the ranks met."""
    ranks: tuple[Rank, ...]
    measures: tuple[Measure, ...] = ()
    channels: tuple[Channel, ...] = ()
    kernels: tuple[Kernel, ...] = ()
    trials: tuple[Trial, ...] = ()
    asked: tuple[str, ...] = ()
    """Kernels that were to be tried."""

    def node(self, number: int) -> str:
        """Of a rank."""
        return next((rank.node for rank in self.ranks if rank.number == number), "?")
