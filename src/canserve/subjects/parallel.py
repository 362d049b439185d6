"""How a model is spread over accelerators: degrees of parallelism, and the accelerators themselves."""

from __future__ import annotations

from dataclasses import dataclass

from canserve.subjects.machine import Machine


@dataclass(frozen=True, slots=True, order=True)
class Parallel:
    """Degrees of parallelism. The number of accelerators is ``tp * pp * dp``."""

    tp: int = 1
    """Tensor parallel."""
    pp: int = 1
    """Pipeline parallel: stages."""
    dp: int = 1
    """Data parallel replicas that are one deployment."""
    ep: int = 1
    """Over how many ranks whole experts are spread; 1: every rank holds a slice of each expert."""

    @property
    def ranks(self) -> int:
        """How many accelerators it takes."""
        return self.tp * self.pp * self.dp

    @property
    def joined(self) -> bool:
        """Whether experts are spread over more ranks than one replica has: only attention is data parallel then."""
        return self.dp > 1 and self.ep > self.tp


@dataclass(frozen=True, slots=True)
class Illegal:
    """Degrees that a rule forbids, and what heals that."""

    parallel: Parallel
    """Degrees that are 1 play no part, unless all were asked for."""
    rule: str
    """The check that they break: ``heads-divide``."""
    because: str
    heals: str
    """What would heal it, the nearest legal value included."""
    larger: bool = False
    """Whether every larger size is forbidden by the same rule."""
    build: str | None = None
    """Whose rule it is; None: of every build that was asked."""


@dataclass(frozen=True, slots=True)
class Rank:
    """One accelerator's place in a layout. Ranks are numbered dp-major, then pp, then tp."""

    number: int
    tp: int
    pp: int
    dp: int
    machine: str
    """The machine's name or subject."""
    device: int
    """Index of the accelerator on its machine."""


@dataclass(frozen=True, slots=True)
class Placement:
    """A layout on named machines."""

    parallel: Parallel
    ranks: tuple[Rank, ...]
    layers: tuple[int, ...]
    """Layers of each pipeline stage, first to last."""


@dataclass(frozen=True, slots=True)
class Device:
    """One accelerator as memory rules need it."""

    machine: Machine
    total: int
    """Bytes as CUDA reports them (``cudaMemGetInfo``), which is less than the nominal figure."""
    total_low: int
    total_high: int
    """The interval of ``total`` where it was not read on the machine."""
    free: int | None
    """Bytes free before the engine starts; None: not looked at."""
    unified: bool
    why: str
    """Where ``total`` comes from."""
    free_low: int | None = None
    """The least that ``free`` may be, by how an engine counts the page cache; None: as ``free``."""
