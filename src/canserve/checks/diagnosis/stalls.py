"""Whether ranks wait for each other without end, and for whom.

Told from several things at once: where each rank's stack stands, how long all of them have been silent, which
ranks of the group were seen at all, which connections do not come about. A log alone has no "now": only a dump
that says when it was taken, two dumps that agree, or the line with which a silent start was stopped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from canserve.checks.diagnosis.log import Moment, Process, Reading, Socket, Stack

PATIENCE = 60.0
"""Seconds of silence of a whole group in a step that takes seconds."""
_BUSY = ("building", "capture", "loading")
_BEYOND = ("joined", "loading", "loaded", "compiling", "cache", "capturing", "ready", "serving")


@dataclass(frozen=True, slots=True)
class Stall:
    """Who waits for what: the name of a row, and what fills its words."""

    name: str
    seen: Mapping[str, str] = field(default_factory=dict)


def stalled(readings: Sequence[Reading]) -> Stall | None:
    """The stall of a start; None: none can be shown."""
    stacks = _latest_stacks(readings)
    waiting = [stack for stack in stacks if stack.place is not None and stack.place.group]
    busy = [stack for stack in stacks if stack.place is not None and stack.place.name in _BUSY]
    if waiting and not busy and _too_long(readings):
        return named(waiting, readings)
    if not stacks and (silence := _silence_before_stop(readings)) is not None:
        return _unplaced(readings, silence)
    return None


def _latest_stacks(readings: Sequence[Reading]) -> list[Stack]:
    dumps = sorted((each for each in readings if each.stacks), key=lambda each: each.taken_at or 0.0)
    if not dumps:
        return []
    newest = dumps[-1].taken_at
    return [stack for dump in dumps if dump.taken_at == newest for stack in dump.stacks]


def _too_long(readings: Sequence[Reading]) -> bool:
    dumps = [each for each in readings if each.stacks]
    taken = sorted({dump.taken_at for dump in dumps if dump.taken_at is not None})
    if taken and (last := _last_word(readings, taken[-1])) is not None and taken[-1] - last >= PATIENCE:
        return True
    if len(dumps) < 2 or (taken and taken[-1] - taken[0] < PATIENCE / 2):
        return False
    return len({_fingerprint(dump.stacks) for dump in dumps}) == 1


def _last_word(readings: Sequence[Reading], now: float) -> float | None:
    said = [
        at.since_start
        for reading in readings
        for at in reading.times
        if at.since_start is not None and at.since_start <= now
    ]
    return max(said, default=None)


def _fingerprint(stacks: Iterable[Stack]) -> tuple[tuple[str, str], ...]:
    """Which processes stand where; parents, which wait for their children anyway, do not count."""
    return tuple(
        sorted(
            (stack.title[:60], stack.place.name)
            for stack in stacks
            if stack.place is not None and stack.place.group
        )
    )


def _silence_before_stop(readings: Sequence[Reading]) -> float | None:
    """Seconds between the last step of a start that had not joined its group, and its being stopped."""
    found = []
    for reading in readings:
        phases = [entry for process in reading.processes.values() for entry in process.phases]
        if any(phase in _BEYOND for phase, _ in phases):
            return None
        began = [line.at for phase, line in phases if phase in ("connecting", "met")]
        ended = [line.at for phase, line in phases if phase == "stopping"]
        if began and ended and (gap := _between(began[-1], ended[0])) is not None and gap >= PATIENCE:
            found.append(gap)
    return max(found, default=None)


def _between(one: Moment, other: Moment) -> float | None:
    if one.since_start is not None and other.since_start is not None:
        return other.since_start - one.since_start
    if one.clock is not None and other.clock is not None:
        return other.clock - one.clock
    return None


def named(waiting: Sequence[Stack], readings: Sequence[Reading]) -> Stall:
    """What those wait for whose stacks stand where a group waits."""
    places = {stack.place.name for stack in waiting if stack.place is not None}
    for name, judge in _PLACES:
        if name in places:
            return judge([each for each in waiting if each.place and each.place.name == name], readings)
    return _collective(waiting, readings)


def _placement(waiting: Sequence[Stack], readings: Sequence[Reading]) -> Stall:
    del waiting
    nodes = [each.nodes_in_cluster for each in readings if each.nodes_in_cluster is not None]
    has = f"; its cluster has {count_of(max(nodes), 'node')}" if nodes else ""
    return Stall("ray-lacks-gpus", {"nodes": has})


def _store(waiting: Sequence[Stack], readings: Sequence[Reading]) -> Stall:
    address = _address(readings)
    at = {"address": f" at {address}" if address else ""}
    if refused := _unanswered(readings):
        return Stall("store-unreachable", {"whose": _whose(refused), "peer": refused[0].peer})
    if missing := _missing(readings, len(waiting)):
        return Stall("rank-missing", {**at, "missing": missing})
    return Stall("store-waits", at)


def _queue(waiting: Sequence[Stack], readings: Sequence[Reading]) -> Stall:
    del waiting
    named = [value for each in readings for value in each.facts.get("advertised", ())]
    return Stall("queue-address-unreachable", {"advertised": f" ({named[0]})" if named else ""})


def _connect(waiting: Sequence[Stack], readings: Sequence[Reading]) -> Stall:
    if refused := _unanswered(readings):
        return Stall("ranks-cannot-connect", {"whose": _whose(refused), "peer": refused[0].peer})
    return _collective(waiting, readings)


def _collective(waiting: Sequence[Stack], readings: Sequence[Reading]) -> Stall:
    missing = _missing(readings, len(waiting))
    says = waiting[0].place.says if waiting and waiting[0].place else "waits"
    whom = f"; {missing} is not there" if missing else ""
    return Stall(
        "collective-stands", {"count": count_of(len(waiting), "rank"), "says": says, "missing": whom}
    )


def _unplaced(readings: Sequence[Reading], silence: float) -> Stall:
    missing, address = _missing(readings, 0), _address(readings)
    return Stall(
        "start-stood",
        {
            "silence": f"{silence:.0f} s",
            "address": f" to {address}" if address else "",
            "missing": f": {missing} was not seen" if missing else "",
        },
    )


_PLACES = (("placement", _placement), ("queue", _queue), ("store", _store), ("connect", _connect))


def _unanswered(readings: Sequence[Reading]) -> list[Socket]:
    return [socket for each in readings for socket in each.sockets if socket.state == "SYN-SENT"]


def _whose(sockets: Sequence[Socket]) -> str:
    host = sockets[0].host
    return f"node {host}" if host else "one node"


def _address(readings: Sequence[Reading]) -> str:
    values = [value for each in readings for value in each.facts.get("address", ()) if ":" in value]
    return values[0] if values else ""


def _missing(readings: Sequence[Reading], standing: int) -> str:
    """The ranks of the group that neither a log nor a stack shows; empty where that is not known."""
    worlds = [int(value) for each in readings for value in each.facts.get("world", ()) if len(value) < 7]
    if not worlds or max(worlds) < 2:
        return ""
    world = max(worlds)
    seen = {rank for rank in map(_rank, _processes(readings)) if rank is not None and rank < world}
    if len(seen) >= world or standing >= world:
        return ""
    missing = [str(rank) for rank in range(world) if rank not in seen][:8]
    return f"rank {', '.join(missing)} of {world}"


def _processes(readings: Sequence[Reading]) -> Iterable[Process]:
    return (process for each in readings for process in each.processes.values())


def _rank(process: Process) -> int | None:
    return process.rank


def count_of(number: int, noun: str) -> str:
    """``2 ranks``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
