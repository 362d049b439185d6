"""What the processes of a deployment write, line by line, from all machines."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Mapping, Sequence

from canserve.commands import reading
from canserve.commands.ssh import Route
from canserve.subjects.deployment import Running
from canserve.transport.pouring import PourError, poured
from canserve.trees.fanout import fanout

LONGEST = 8000
"""Characters of a line that are kept."""
MOST_BYTES = 16 << 20
"""Of one process, where it is not followed."""
_SECONDS, _DAYS = 60.0, 86_400.0 * 30
_PIECE = 1 << 16
Told = tuple[Running, str]


def lines(
    running: Sequence[Running], routes: Mapping[str, Route], program: str, tail: int, follow: bool
) -> Iterator[Told]:
    """The last lines of each process, process by process; or, followed, of all as they come, until interrupted."""

    def argv(one: Running) -> tuple[str, ...]:
        if one.kind == "container":
            return reading.container_log(program, one.name, tail, follow)
        return reading.process_log(one.name, tail, follow)

    if not follow:
        read = fanout(lambda one: list(_read(one, routes.get(one.machine), argv(one), _SECONDS)), running)
        yield from (line for each in read for line in each)
        return
    told: queue.SimpleQueue[Told | None] = queue.SimpleQueue()
    for one in running:
        threading.Thread(
            target=_pass_on, args=(one, routes.get(one.machine), argv(one), told), daemon=True
        ).start()
    open_ones = len(running)
    while open_ones:
        line = told.get()
        if line is None:
            open_ones -= 1
        else:
            yield line


def _pass_on(
    one: Running, route: Route | None, argv: tuple[str, ...], told: queue.SimpleQueue[Told | None]
) -> None:
    for line in _read(one, route, argv, _DAYS):
        told.put(line)
    told.put(None)


def _read(one: Running, route: Route | None, argv: tuple[str, ...], seconds: float) -> Iterator[Told]:
    count, rest = 0, b""
    try:
        with poured(route, argv, seconds) as stream:
            while (piece := stream.read(_PIECE)) and (seconds > _SECONDS or count < MOST_BYTES):
                count += len(piece)
                *whole, rest = (rest + piece).split(b"\n")
                rest = rest[:LONGEST]
                for line in whole:
                    yield one, _text(line)
    except PourError as error:
        yield one, f"[canserve: {error}]"
    if rest:
        yield one, _text(rest)


def _text(line: bytes) -> str:
    return line[:LONGEST].decode("utf-8", "replace").rstrip("\r")
