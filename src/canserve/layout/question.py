"""What is asked: one model on these machines, with one release of an engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from canserve.facts import Cause, Fact, Known, Missing
from canserve.layout.matrices import Matrix, matrices
from canserve.layout.shape import Shape, shape
from canserve.rules.parallel import row
from canserve.rules.table import Row
from canserve.subjects.build import Build
from canserve.subjects.machine import Machine
from canserve.subjects.model import Model
from canserve.subjects.parallel import Parallel


@dataclass(frozen=True, slots=True)
class Host:
    """One machine and how many of its accelerators may be used."""

    name: str
    """Unique among the hosts of a question."""
    machine: Machine
    gpus: int
    stated: bool = True
    """False where nothing says how many accelerators it has, and one is taken."""


def hosts(machines: Sequence[Machine]) -> tuple[Host, ...]:
    """Machines as hosts, each with a name of its own: ``profile:h200``, ``profile:h200#2``."""
    seen: dict[str, int] = {}
    found = []
    for machine in machines:
        count = seen[machine.subject] = seen.get(machine.subject, 0) + 1
        name = machine.subject if count == 1 else f"{machine.subject}#{count}"
        stated = isinstance(machine.gpus, Known)
        gpus = machine.gpus.value if isinstance(machine.gpus, Known) else 1
        found.append(Host(name, machine, gpus, stated))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Fixed:
    """Degrees of parallelism that the user fixed; None: any."""

    tp: int | None = None
    pp: int | None = None
    dp: int | None = None
    ep: int | None = None

    @property
    def least(self) -> int:
        """How many accelerators it takes at least."""
        return (self.tp or 1) * (self.pp or 1) * (self.dp or 1)

    def allows(self, parallel: Parallel) -> bool:
        """Whether these degrees are the ones that were fixed."""
        pairs = (
            (self.tp, parallel.tp), (self.pp, parallel.pp), (self.dp, parallel.dp), (self.ep, parallel.ep),
        )  # fmt: skip
        return all(want is None or want == is_ for want, is_ in pairs)


@dataclass(frozen=True, slots=True)
class Question:
    """One model on these machines. ``engine`` and ``version`` say whose rules apply."""

    model: Model
    hosts: tuple[Host, ...]
    engine: str
    version: str
    build: Build | None = None
    """Where it was read: says whether the model's class can be cut into stages."""
    fixed: Fixed = Fixed()
    whole_encoder: bool = False
    """Whether the vision encoder is kept whole on every rank (data parallel encoder)."""
    towers: bool = True
    """Whether vision and audio towers are loaded."""
    draft: bool = False
    """Whether the model's own extra layers predict ahead (MTP)."""
    shape: Fact[Shape] = field(init=False, compare=False)
    matrices: Fact[tuple[Matrix, ...]] = field(init=False, compare=False)
    """Those that are quantized."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", shape(self.model))
        object.__setattr__(self, "matrices", matrices(self.model))

    def rule(self, section: str, part: str | None = None) -> Fact[Row | None]:
        """The engine's rule for one thing, see ``rules/parallel.toml``."""
        if not self.engine:
            return Missing(Cause.UNREACHED, "no engine was named", ask="name a build (--build)")
        return row(section, self.engine, self.version, part)

    def strict(self, what: str) -> Fact[bool]:
        """Whether the engine needs equal parts of ``heads`` or ``widths`` on every rank; Missing: not known."""
        found = self.rule("tensor")
        if isinstance(found, Missing):
            return found
        if found.value is None:
            why = f"how {self.engine} {self.version} cuts {what} is not known"
            return Missing(Cause.UNAVAILABLE, why, found.evidence, "start it once")
        return Known(bool(found.value.values[what]), found.evidence)

    @property
    def gpus(self) -> int:
        """All accelerators of all hosts."""
        return sum(host.gpus for host in self.hosts)
