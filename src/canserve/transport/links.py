"""Destinations to which something else than the ssh program leads: recorded hosts, and simulated ones by the thousand.

Everything above stays as it is: frames, gates, deadlines, attempts and what is made of a refusal.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from canserve.transport.running import Ran


class Link(Protocol):
    """In place of ssh."""

    def run(
        self,
        argv: Sequence[str],
        given: bytes,
        seconds: float,
        complete: Callable[[bytearray], bool],
        most: int,
    ) -> Ran:
        """As ``running.run``: the words of ssh, the script, and who reads along."""
        ...

    def pour(self, destination: str, argv: Sequence[str]) -> bytes:
        """All that a command which only reads writes there. Raises OSError where it cannot be asked."""
        ...


class Links:
    """By the end of a destination's name: ``.simulated``."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._links: dict[str, Link] = {}

    @contextmanager
    def leading(self, ending: str, link: Link) -> Iterator[None]:
        """For as long as this lasts, names with this ending are reached over the link."""
        with self._lock:
            self._links[ending] = link
        try:
            yield
        finally:
            with self._lock:
                del self._links[ending]

    def of(self, destination: str) -> Link | None:
        """What leads there; None: ssh does."""
        return next((link for ending, link in self._links.items() if destination.endswith(ending)), None)


LINKS = Links()
"""Of this process; empty but in tests and measurements."""
