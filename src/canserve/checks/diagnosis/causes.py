"""Which of the events of all ranks is the first cause, and which are only its consequences.

A start that went on to serve was not prevented by what came before. Of the rest, a line that ends a start by
itself goes before one that is often another rank's echo; within each, the earlier goes first, and of two at the
same moment the one of the innermost process.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from canserve.checks.diagnosis.log import Event, Moment, Reading

READY = ("ready", "serving")
SERVED = "served-but-wrong"
"""The kind of failures of a server that goes on answering."""
_WAITING = re.compile(
    r"(?i)time[d ]*-?out|refused|closed|reset by peer|not (?:respond|answer)|unreachable|disconnect"
)
SAME = 5.0
"""Seconds between lines of two machines that may be of one moment: clocks differ, and tracebacks bear no time."""
_FRAGMENT = 10
"""Lines; as many may have been pasted out of a log."""


@dataclass(frozen=True, slots=True)
class Found:
    """An event and the file it stands in."""

    reading: Reading
    event: Event
    depth: int
    when: float
    """Seconds; never less than of a line above it in its file."""

    @property
    def role(self) -> str:
        """Of its signature; an exception without one is ``unknown``."""
        return self.event.signature.role if self.event.signature else "unknown"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The choice."""

    cause: Found | None
    consequences: tuple[Found, ...]
    others: tuple[Found, ...]
    """Further causes, which the first one does not explain away."""
    remarks: tuple[Found, ...]
    """Lines that healthy starts have as well."""


def first_cause(readings: Sequence[Reading], order: Callable[[str], int]) -> Verdict:
    """The first cause among the events of all files."""
    events = sorted(_standing(readings, order), key=_moment)
    of = {role: [each for each in events if each.role == role] for role in _ROLES}
    fatal = [each for each in of["cause"] if not _mild(each)]
    if any(
        each.role == "unknown" and not _mild(each) and not of_another(each.event.line.text) for each in events
    ):
        # What is told in passing will make it stand; what ended it is the error that no rule knows.
        fatal = [each for each in fatal if not each.event.line.mild]
    mild = [each for each in of["cause"] if _mild(each)]
    loose = [each for each in [*of["symptom"], *of["unknown"]] if not _mild(each)]
    ended = bool(fatal or loose or of["consequence"]) or is_fragment(readings, [*mild, *of["symptom"]])
    # A warning alone ends no start; where the start did end, it says why better than what came of it.
    warned = [*mild, *(each for each in of["symptom"] if _mild(each))] if ended else []
    candidates = _own_first([*fatal, *mild, *sorted(loose, key=_moment), *warned]) if ended else []
    cause = candidates[0] if candidates else None
    others = tuple(each for each in [*fatal, *of["symptom"]] if not _mild(each) and not _same(each, cause))
    behind = [*of["consequence"], *(each for each in of["unknown"] if each is not cause)]
    return Verdict(cause, tuple(sorted(behind, key=_moment)), _distinct(others), tuple(of["remark"]))


def _own_first(causes: list[Found]) -> list[Found]:
    """Of errors of one moment, what a rank says of itself goes before what another says of its peer: that came of it."""
    if not causes or not of_another(causes[0].event.line.text):
        return causes
    first = causes[0]
    own = [
        each
        for each in causes
        if each.reading is not first.reading
        and each.role in ("cause", "symptom")
        and not _mild(each)
        and abs(each.when - first.when) <= SAME
        and not of_another(each.event.line.text)
    ]
    return [*own[:1], *(each for each in causes if each not in own[:1])]


def of_another(text: str) -> bool:
    """Whether an error only says that somebody else did not answer, or is gone."""
    return _WAITING.search(text) is not None


def _mild(found: Found) -> bool:
    signature = found.event.signature
    return found.event.line.mild and not (signature is not None and signature.certain)


_ROLES = ("cause", "symptom", "unknown", "consequence", "remark")


def _standing(readings: Sequence[Reading], order: Callable[[str], int]) -> Iterable[Found]:
    """The events that nothing overtook."""
    ready_at = _latest(readings)
    since_start = all(
        any(event.line.at.since_start is not None for event in each.events)
        for each in readings
        if each.events
    )
    for reading in readings:
        ready, when = ready_line(reading), 0.0
        for event in sorted(reading.events, key=lambda event: event.line.number):
            process = reading.processes.get(event.line.who)
            when = max(when, _seconds(event.line.at, since_start))
            found = Found(reading, event, process.depth if process else 0, when)
            if event.line.number <= ready or (_before(event.line.at, ready_at) and not _ended(reading)):
                continue
            if ready and _of_a_request(found):
                continue
            if found.role in ("symptom", "remark") and _went_on(found, order):
                continue
            yield found


def _ended(reading: Reading) -> bool:
    """Whether its processes gave up and never went on: then another file's server is another deployment."""
    given_up = [e.line.number for e in reading.events if e.signature and e.signature.role == "consequence"]
    phases = [line.number for process in reading.processes.values() for _, line in process.phases]
    return bool(given_up) and max(phases, default=0) < max(given_up)


def _of_a_request(found: Found) -> bool:
    """Whether an error behind the start ended one request and not the server.

    It stands in the outermost process, and requests were answered after it, or no process within failed or gave up,
    or one did of its own: then that is what ended the server.
    """
    reading, signature = found.reading, found.event.signature
    if found.depth > 0 or found.role == "consequence":
        return False
    if signature is not None and signature.kind == SERVED:
        return False
    if found.event.line.number < reading.served_until:
        return True
    inner = {who for who, process in reading.processes.items() if process.depth > 0}
    given_up = any(e.signature and e.signature.role == "consequence" for e in reading.events)
    return bool(inner) and (not given_up or any(_ends(e) and e.line.who in inner for e in reading.events))


def _ends(event: Event) -> bool:
    return event.signature is None or event.signature.role in ("cause", "symptom")


def _seconds(at: Moment, since_start: bool) -> float:
    """On the one scale that all files have; 0 where the line tells no time."""
    return (at.since_start if since_start else at.clock) or 0.0


def ready_line(reading: Reading) -> int:
    """The line at which this log's server was ready; 0: it never was."""
    lines = [
        line.number
        for process in reading.processes.values()
        for phase, line in process.phases
        if phase in READY
    ]
    return min(lines, default=0)


def _latest(readings: Sequence[Reading]) -> Moment | None:
    """When the deployment was ready, as its own log says."""
    moments = [
        line.at
        for reading in readings
        for process in reading.processes.values()
        for phase, line in process.phases
        if phase in READY and line.at.clock is not None
    ]
    return min(moments, key=lambda at: at.clock or 0.0) if moments else None


def _before(at: Moment, ready: Moment | None) -> bool:
    return ready is not None and at.clock is not None and ready.clock is not None and at.clock < ready.clock


def _went_on(found: Found, order: Callable[[str], int]) -> bool:
    """Whether the process that said it reached a further phase of its start afterwards."""
    process = found.reading.processes.get(found.event.line.who)
    if process is None:
        return False
    return any(
        line.number > found.event.line.number and order(phase) < order("stopping")
        for phase, line in process.phases
    )


def _moment(found: Found) -> tuple[float, int, int]:
    # Without any time an order between files is not known: the innermost process speaks first.
    return (found.when, -found.depth, found.event.line.number)


def _same(one: Found, other: Found | None) -> bool:
    return other is not None and _name(one) == _name(other)


def _name(found: Found) -> str:
    return found.event.signature.name if found.event.signature else found.event.line.text


def _distinct(found: Iterable[Found]) -> tuple[Found, ...]:
    first: dict[str, Found] = {}
    for each in found:
        first.setdefault(_name(each), each)
    return tuple(first.values())


def is_fragment(readings: Sequence[Reading], remarks: Sequence[Found]) -> bool:
    """Whether a few lines were pasted, so that no phase can be told from them."""
    told = {(each.reading.name, each.event.line.number) for each in remarks}
    marked = {
        (reading.name, line.number)
        for reading in readings
        for process in reading.processes.values()
        for _, line in process.phases
    }
    return sum(reading.lines for reading in readings) <= _FRAGMENT and marked <= told
