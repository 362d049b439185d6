"""What every process of a deployment wrote, read on its machine and passed through the sieve of ``diagnose``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from canserve.checks.diagnosis.log import Reading
from canserve.commands import reading
from canserve.commands.ssh import Route
from canserve.probes.logs.blocks import Source
from canserve.probes.logs.matching import Matcher
from canserve.probes.logs.reading import read_log
from canserve.subjects.deployment import Running
from canserve.transport.pouring import PourError, poured
from canserve.trees.fanout import fanout


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much of each log is read, and how long."""

    first: int = 32 << 20
    """Bytes from its beginning."""
    last: int = 96 << 20
    """And from its end, where it is longer."""
    seconds: float = 180.0


def read_logs(
    running: Sequence[Running],
    routes: Mapping[str, Route],
    program: str,
    matcher: Matcher,
    bounds: Bounds | None = None,
) -> list[Reading]:
    """One reading of each process, in their order. Never raises for what a machine does."""
    limits = bounds or Bounds()
    return fanout(lambda one: _read(one, routes.get(one.machine), program, matcher, limits), running)


def named(one: Running) -> str:
    """What its log is called: the machine, and the ranks or the process."""
    return f"{one.machine} rank {one.ranks}" if one.ranks else f"{one.machine} process {one.process}"


def _read(one: Running, route: Route | None, program: str, matcher: Matcher, limits: Bounds) -> Reading:
    if one.kind == "container":
        argv = reading.whole_container_log(program, one.name, limits.first, limits.last)
    else:
        argv = reading.whole_process_log(one.name, limits.first, limits.last)
    try:
        with poured(route, argv, limits.seconds) as stream:
            source = _Counted(stream, _ending(one))
            found = read_log(named(one), source, matcher)
    except PourError as error:
        return Reading(named(one), problem=str(error))
    if source.count >= limits.first + limits.last:
        found.problem = (
            f"longer than {(limits.first + limits.last) >> 20} MiB: something in its middle was not read; "
            f"lines are counted without it"
        )
    return found


def _ending(one: Running) -> Iterator[bytes]:
    """How it ended, as a last line: the engine cannot say it itself."""
    if one.exit:
        killed = ": OOMKilled" if "out of memory" in one.state else ""
        yield f"\nprocess {one.process} exited with code {one.exit}{killed}\n".encode()


class _Counted:
    """A stream, with something said at its end."""

    def __init__(self, stream: Source, after: Iterator[bytes]) -> None:
        self._stream, self._after, self.count = stream, after, 0

    def read(self, count: int, /) -> bytes:
        data = self._stream.read(count)
        self.count += len(data)
        return data or next(self._after, b"")
