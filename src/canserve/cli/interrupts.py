"""Ctrl-C while machines are changed: what has begun is brought to its end, then taken away; a second one ends that too."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interrupts(answers: Sequence[Callable[[], None]]) -> Iterator[None]:
    """Calls the first at the first signal, the second at the next, and so on; further ones do nothing."""
    left = list(answers)

    def answer(number: int, frame: FrameType | None) -> None:
        del number, frame
        if left:
            left.pop(0)()

    before = {number: signal.signal(number, answer) for number in SIGNALS}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
