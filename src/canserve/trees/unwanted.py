"""What nobody waits for any more: looks end at once, in whichever thread they are, when whoever wanted them says so."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

TURN = 0.25
"""Seconds after which whoever looks asks again whether that is wanted."""
_STOPS: ContextVar[tuple[threading.Event, ...]] = ContextVar("stops", default=())


@contextmanager
def until(stop: threading.Event) -> Iterator[None]:
    """Looks that are begun in here, also by the threads of ``fanout``, are wanted until this is set."""
    token = _STOPS.set((*_STOPS.get(), stop))
    try:
        yield
    finally:
        _STOPS.reset(token)


def unwanted() -> bool:
    """Whether the look of this thread is of no use to anybody."""
    return any(stop.is_set() for stop in _STOPS.get())
