"""What the processes of a deployment write, line by line, from all machines."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

from canserve.commands import reading
from canserve.commands.ssh import Route
from canserve.subjects.deployment import Running
from canserve.transport.pouring import Poured, PourError, poured
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
) -> Generator[Told, None, None]:
    """The last lines of each process, process by process; or, followed, of all as they come, until interrupted."""

    def argv(one: Running) -> tuple[str, ...]:
        if one.kind == "container":
            return reading.container_log(program, one.name, tail, follow)
        return reading.process_log(one.name, tail, follow)

    if not follow:
        read = fanout(lambda one: list(_read(one, routes.get(one.machine), argv(one), _SECONDS)), running)
        yield from (line for each in read for line in each)
        return
    following = _Following()
    threads = [
        threading.Thread(
            target=following.pass_on, args=(one, routes.get(one.machine), argv(one)), daemon=True
        )
        for one in running
    ]
    for thread in threads:
        thread.start()
    try:
        left = len(threads)
        while left:
            line = following.told.get()
            left -= line is None
            if line is not None:
                yield line
    finally:
        following.end()
        for thread in threads:
            thread.join(2)


class _Following:
    """Several logs, read at the same time, until it is ended."""

    def __init__(self) -> None:
        self.told: queue.SimpleQueue[Told | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._ends: list[Callable[[], None]] = []
        self._ended = False

    def pass_on(self, one: Running, route: Route | None, argv: tuple[str, ...]) -> None:
        """The lines of one, and None behind them."""
        for line in _read(one, route, argv, _DAYS, self._opened):
            self.told.put(line)
        self.told.put(None)

    def _opened(self, stream: Poured) -> None:
        with self._lock:
            self._ends.append(stream.end)
            if self._ended:
                stream.end()

    def end(self) -> None:
        """End the commands that read, here and over there."""
        with self._lock:
            self._ended = True
            for end in self._ends:
                end()


def _read(
    one: Running,
    route: Route | None,
    argv: tuple[str, ...],
    seconds: float,
    opened: Callable[[Poured], None] = lambda _: None,
) -> Iterator[Told]:
    count, rest = 0, b""
    try:
        with poured(route, argv, seconds) as stream:
            opened(stream)
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
