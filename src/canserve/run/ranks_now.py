"""How the processes of a deployment are while it serves: one light look at its machines, to be taken again and again."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from canserve.commands import watching
from canserve.probes.live import Way, asked
from canserve.run.looking import WIDTH, Question, sections_of, understood
from canserve.run.watching_kernel import Below, accelerators, counters, trees
from canserve.subjects.cluster import Node
from canserve.subjects.deployment import PROCESS, Running
from canserve.subjects.inquiry import RankNow
from canserve.transport.frames import Section
from canserve.transport.reach import Limits, Look
from canserve.trees.fanout import fanout

_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Place:
    """A process of the deployment, as it was found before."""

    running: Running
    ranks: tuple[int, ...]
    phase: str = ""
    """In words, as its log says it."""


@dataclass(slots=True)
class Ranks:
    """The processes of one deployment. Only what was there at the beginning is looked for."""

    run: str
    state: str
    program: str
    nodes: Mapping[str, Node]
    places: tuple[Place, ...]
    stop: Callable[[], bool]
    _busy: dict[int, tuple[float, float]] = field(default_factory=dict)
    """By process: when it was looked at last, and the processor seconds that it had used."""

    def look(self) -> tuple[RankNow, ...]:
        """Every machine at the same time. Never raises for what a machine does."""
        machines = [one.running.machine for one in self.places if one.running.machine in self.nodes]
        found = fanout(self._at, list(dict.fromkeys(machines)), WIDTH)
        return tuple(sorted((one for each in found for one in each), key=lambda one: one.process))

    def _at(self, machine: str) -> list[RankNow]:
        mine = [one for one in self.places if one.running.machine == machine]
        question = Question(self.state, self.run, () if self.program == PROCESS else (self.program,))
        roots = [self._root(one.running) for one in mine]
        sections = (
            *sections_of(question),
            Section("tree", watching.tree(roots), 128 * watching.MOST_PROCESSES),
            Section("gpu", watching.ACCELERATORS),
        )
        look = asked(self.nodes[machine], self.nodes, sections, Way(), Limits(whole=_SECONDS, stop=self.stop))
        seen = understood(machine, look, question)
        there = {one.process: one for one in seen.running}
        sure = seen.trouble is None and seen.engine_trouble is None and not look.trouble
        counted = trees(look)
        return [
            self._rank(one, there.get(one.running.process), sure, look, counted.get(one.running.process))
            for one in mine
        ]

    def _root(self, one: Running) -> str:
        if one.kind == "container":
            return watching.container_root(one.process, self.program, one.name)
        return watching.detached_root(one.process, one.name)

    def _rank(
        self, place: Place, found: Running | None, sure: bool, look: Look, below: Below | None
    ) -> RankNow:
        number, machine = place.running.process, place.running.machine
        if found is None:
            alive, state = (False, "is not there any more") if sure else (None, "could not be looked at")
            return RankNow(number, place.ranks, machine, alive, state)
        used = counters(below or Below(), False, None)
        return RankNow(
            number, place.ranks, machine, found.alive, found.state, place.phase,
            self._processors(number, used.cpu if used is not None else None),
            accelerators(look) if place.ranks else None,
        )  # fmt: skip

    def _processors(self, number: int, seconds: float | None) -> float | None:
        """How many it kept busy since it was looked at last."""
        at, before = time.monotonic(), self._busy.get(number)
        if seconds is None:
            self._busy.pop(number, None)
            return None
        self._busy[number] = at, seconds
        return None if before is None or at <= before[0] else max(seconds - before[1], 0.0) / (at - before[0])
