"""``diagnose``: from the logs of a deployment to the first cause."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from canserve.api import SpecError
from canserve.checks.diagnosis.judge import diagnose as judge
from canserve.checks.diagnosis.log import Event, Reading
from canserve.index.messages import origin
from canserve.probes.logs.matching import Matcher
from canserve.probes.logs.opening import read_path, read_stream
from canserve.probes.logs.reading import LAST_LINES
from canserve.rules.failures import Knowledge, knowledge
from canserve.subjects.diagnosis import Diagnosis

if TYPE_CHECKING:
    from canserve.api.running import Found


_ANNOUNCED = "terminate called after throwing"


def _silent(message: str) -> None:
    del message


@cache
def shipped_matcher() -> Matcher:
    """The shipped rows, compiled once."""
    return Matcher(knowledge())


def diagnose(path: str | Path, *, progress: Callable[[str], None] | None = None) -> Diagnosis:
    """What a log, or a folder with the logs and stack dumps of one deployment, comes down to.

    Raises SpecError when there is no such file or folder.
    """
    matcher = shipped_matcher()
    try:
        readings = read_path(Path(path), matcher, progress or _silent)
    except OSError as error:
        raise SpecError(
            f"{path}: {error.strerror or error}",
            "name a log, a folder of one deployment's logs, or - for a pipe",
        ) from error
    return judged(readings, matcher.knowledge)


def diagnose_stream(stream: BinaryIO) -> Diagnosis:
    """What comes through a pipe, read up to its end."""
    matcher = shipped_matcher()
    return judged([read_stream(stream, matcher)], matcher.knowledge)


def diagnose_run(found: Found, *, progress: Callable[[str], None] | None = None) -> Diagnosis:
    """What the logs of a deployment come down to: read on its machines, or as they were kept when it failed.

    Raises SpecError where nothing of it is left.
    """
    from canserve.probes.live import routes
    from canserve.run.evidence import FOLDER
    from canserve.run.reading_logs import read_logs
    from canserve.store.journal import default_folder

    if not found.running:
        kept = default_folder() / FOLDER / found.run / "logs"
        if kept.is_dir():
            return diagnose(kept, progress=progress)
        if found.troubles:
            raise SpecError(
                f"{found.troubles[0].machine}: {found.troubles[0].trouble}", found.troubles[0].hint
            )
        raise SpecError(
            f"nothing of {found.run} is on its machines any more, and nothing of it was kept",
            "what fails is kept by itself; canserve up ... --keep leaves it on the machines",
        )
    matcher = shipped_matcher()
    (progress or _silent)(f"reading what {len(found.running)} processes wrote")
    readings = read_logs(found.running, routes(found.nodes), found.program or "docker", matcher)
    readings += [Reading(each.machine, problem=str(each.trouble)) for each in found.troubles]
    readings += [Reading(f"process {number}", problem="nothing of it is there") for number in found.gone]
    return judged(readings, matcher.knowledge)


def judged(readings: Sequence[Reading], rows: Knowledge) -> Diagnosis:
    """From what was read to the answer."""
    for reading in readings:
        reading.events = [_located(event, rows) for event in _said_once(reading.events)]
        if not reading.events and reading.lines <= LAST_LINES:
            reading.events = [event for line in reading.tail if (event := _located(Event(line), rows)).area]
    return judge(readings, rows)


def _said_once(events: Sequence[Event]) -> Iterator[Event]:
    """Without the lines that only announce what the next one says: C++ tells of an exception in two."""
    for event, after in zip_longest(events, events[1:]):
        announced = event.signature is None and event.line.text.startswith(_ANNOUNCED)
        if not (announced and after is not None and after.line.text.lstrip().startswith("what():")):
            yield event


def _located(event: Event, rows: Knowledge) -> Event:
    """An exception that no row knows, with the place that the message catalogue has for it."""
    if event.signature is not None or event.area is not None:
        return event
    found = origin(event.line.text)
    if found is None or found.area not in rows.areas:
        return event
    if any(word in event.line.text for word in found.area.unless):
        return event
    return replace(event, area=found.area, raised_at=event.raised_at or found.place)
