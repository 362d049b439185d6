"""``status``: how far every rank has come, as its log says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from canserve.api.diagnosing import shipped_matcher
from canserve.api.running import Found
from canserve.run.phases import Source, phases
from canserve.subjects.deployment import Running

Phases = Mapping[str, Mapping[int, tuple[str, ...]]]
"""By run and process: ``rank 0: ready``."""


def phases_of(found: Sequence[Found], stop: Callable[[], bool] | None = None) -> Phases:
    """Of every deployment whose engine is known. Only looks; a log that cannot be read tells nothing."""
    return {one.run: phases(one.nodes, tuple(_sources(one)), shipped_matcher(), stop) for one in found}


def _sources(it: Found) -> Iterator[Source]:
    engine = it.told.get("engine")
    for one in it.running:
        ranks = ranks_of(it, one)
        if engine and ranks:
            yield Source(one, engine, ranks, it.program or "docker")


def ranks_of(it: Found, one: Running) -> tuple[int, ...]:
    """The ranks of one of its processes; empty: it only joins machines, or nothing says."""
    processes = it.told.get("processes", ())
    return _ranks(one.ranks) or (
        tuple(processes[one.process]["ranks"]) if one.process < len(processes) else ()
    )


def _ranks(text: str) -> tuple[int, ...]:
    words = text.split(",")
    return tuple(map(int, words)) if all(word.isdecimal() and len(word) < 7 for word in words) else ()
