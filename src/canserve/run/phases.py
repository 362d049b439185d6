"""How far the ranks of deployments have come, read once from their logs: the beginning, where phases stand, and the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from canserve.commands import watching
from canserve.probes.live import Way, asked
from canserve.probes.logs.matching import Matcher
from canserve.probes.logs.tracking import Tracker
from canserve.run.looking import WIDTH
from canserve.subjects.cluster import Node
from canserve.subjects.deployment import Running
from canserve.subjects.progress import WORDS, Told
from canserve.transport.frames import Answer, Section
from canserve.transport.reach import Limits
from canserve.trees.fanout import fanout

BEGIN, END = 256 << 10, 64 << 10
"""Bytes of a log that are read."""
_ORDER = tuple(WORDS)


@dataclass(frozen=True, slots=True)
class Source:
    """One process, and what is known of it."""

    running: Running
    engine: str
    ranks: tuple[int, ...]
    program: str
    """What holds it."""


def phases(
    nodes: Sequence[Node],
    sources: Sequence[Source],
    matcher: Matcher,
    stop: Callable[[], bool] | None = None,
) -> Mapping[int, tuple[str, ...]]:
    """By process, in words: ``rank 0: weights 3 of 14``; a process whose log tells nothing is left out.

    ``stop``: breaks a look off that is under way.
    """
    named = {node.name: node for node in nodes}
    machines = [name for name in dict.fromkeys(each.running.machine for each in sources) if name in named]

    def look(name: str) -> dict[int, tuple[str, ...]]:
        mine = [each for each in sources if each.running.machine == name and each.ranks]
        sections = tuple(
            Section(f"log_{each.running.process}", _script(each), BEGIN + END + 2) for each in mine
        )
        found = asked(named[name], named, sections, Way(), Limits(whole=30, stop=stop)) if sections else None
        told = {}
        for each in mine if found is not None else ():
            answer = found.section(f"log_{each.running.process}") if found is not None else None
            if isinstance(answer, Answer) and (words := _words(each, answer.out, matcher)):
                told[each.running.process] = words
        return told

    return {number: words for found in fanout(look, machines, WIDTH) for number, words in found.items()}


def _script(it: Source) -> str:
    if it.running.kind == "container":
        return watching.container_ends(it.program, it.running.name, BEGIN, END)
    return watching.detached_ends(it.running.name, BEGIN, END)


def _words(it: Source, log: bytes, matcher: Matcher) -> tuple[str, ...]:
    tracker = Tracker(matcher, it.engine, it.ranks)
    tracker.feed(log)
    told = tracker.told
    if not told.phases:
        return ()
    return tuple(f"rank {rank}: {_said(told, rank)}" for rank in it.ranks)


def _said(told: Told, rank: int) -> str:
    order = {phase: number for number, phase in enumerate(_ORDER)}
    found = told.of(rank, order)
    if not found:
        return "process up"
    count = told.counts.get(rank) or told.counts.get(None)
    words = WORDS[found[-1]]
    return f"{words} {count.done} of {count.total}" if count and count.phase == found[-1] else words
