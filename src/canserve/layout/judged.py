"""All constraints applied to sets of degrees; each ruling is made once for the degrees that it depends on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from canserve.layout import attention, blocks, replicas, stages, vision, width
from canserve.layout.place import Floor, Room, floors
from canserve.layout.question import Question
from canserve.layout.ruling import Constraint, Ruling, no, unknown
from canserve.subjects.parallel import Parallel
from canserve.verdict import No, Unknown

CONSTRAINTS: tuple[Constraint, ...] = (
    attention.HEADS,
    attention.KV_HEADS,
    attention.STATE_HEADS,
    width.VOCABULARY,
    width.DENSE,
    width.EXPERTS,
    width.RANKS,
    blocks.BLOCKS,
    vision.VISION,
    stages.COVER,
    stages.SUPPORTED,
    replicas.DATA,
)
"""Of model and engine; whether the machines have room is judged by ``machines-have-room``."""

ROOM = "machines-have-room"
MOST = 1024
"""Largest tensor parallel size that is looked at for a nearest legal one."""


@dataclass
class Judged:
    """The rulings about one question."""

    question: Question
    floors: tuple[Floor, ...] = field(init=False)
    """Machines that can serve together, the most first."""
    _seen: dict[tuple[object, ...], Ruling | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.floors = floors(self.question.hosts)

    def ruling(self, constraint: Constraint, parallel: Parallel) -> Ruling | None:
        """What one constraint says; None: it does not concern this."""
        axes = constraint.axes
        key = (
            constraint.name,
            parallel.tp if "tp" in axes else 0,
            parallel.pp if "pp" in axes else 0,
            parallel.dp if "dp" in axes else 0,
            parallel.ep if "ep" in axes else 0,
        )
        if key not in self._seen:
            self._seen[key] = constraint.judge(self.question, parallel)
        return self._seen[key]

    def rulings(self, parallel: Parallel) -> Iterator[tuple[Constraint, Ruling]]:
        """Everything that is said about these degrees, in the order of the constraints."""
        for constraint in CONSTRAINTS:
            ruling = self.ruling(constraint, parallel)
            if ruling is not None:
                yield constraint, ruling

    def forbidden(self, parallel: Parallel) -> Iterator[tuple[Constraint, Ruling]]:
        """The constraints that these degrees break; the machines are not asked."""
        return (pair for pair in self.rulings(parallel) if isinstance(pair[1].verdict, No))

    def legal(self, parallel: Parallel) -> bool:
        """Whether no constraint of model or engine is broken."""
        return next(self.forbidden(parallel), None) is None

    def doubts(self, parallel: Parallel) -> tuple[tuple[str, Unknown], ...]:
        """What could not be decided about these degrees, by constraint."""
        return tuple(
            (constraint.name, ruling.verdict)
            for constraint, ruling in self.rulings(parallel)
            if isinstance(ruling.verdict, Unknown)
        )

    def room(self, parallel: Parallel) -> Room | Ruling:
        """How the machines make room; else why they do not."""
        rule = self.question.rule("shares")
        row = getattr(rule, "value", None)
        equal = bool(row is not None and row.values["equal"])
        if self.question.gpus < parallel.ranks:
            words = f"it takes {parallel.ranks} accelerators, and there are {self.question.gpus}"
            if any(not host.stated for host in self.question.hosts):
                return unknown(f"{words} as far as is known", "state how many accelerators the machines have")
            return no(words, heals=("add machines",))
        for floor in self.floors:
            found = floor.share(parallel, equal)
            if found is not None:
                return Room(floor, found)
        if len(self.floors) > 1:
            return no(f"no {parallel.ranks} accelerators of one maker can be taken from these machines")
        return no(
            f"{parallel.ranks} accelerators cannot be taken in equal shares from these machines, as this engine needs",
            rule,
        )

    def healed(self, parallel: Parallel, ruling: Ruling) -> Ruling:
        """A no with the nearest legal tensor parallel size among what heals it."""
        if not isinstance(ruling.verdict, No):
            return ruling
        fixes = list(ruling.heals)
        near = self.nearest_tp(parallel)
        if near:
            fixes.append(f"use tensor parallel {' or '.join(str(tp) for tp in near)}")
        if not fixes:
            return ruling
        return replace(ruling, verdict=No(ruling.verdict.because, " or ".join(fixes)))

    def nearest_tp(self, parallel: Parallel) -> tuple[int, ...]:
        """The legal tensor parallel sizes next to a forbidden one, below and above; other degrees unchanged."""

        def legal(tp: int) -> bool:
            whole = parallel.ep == parallel.tp * parallel.dp > 1
            ep = tp * parallel.dp if whole else min(parallel.ep, tp * parallel.dp)
            return self.legal(replace(parallel, tp=tp, ep=ep))

        top = min(self.question.gpus // max(1, parallel.pp * parallel.dp), MOST)
        start = min(parallel.tp, top + 1)
        below = next((tp for tp in range(start - 1, 0, -1) if legal(tp)), None)
        above = next((tp for tp in range(parallel.tp + 1, top + 1) if legal(tp)), None)
        return tuple(tp for tp in (below, above) if tp is not None)
