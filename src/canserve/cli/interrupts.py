"""Ctrl-C while machines are changed: what has begun is brought to its end, then taken away; a second one ends that too."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interrupts(answers: Sequence[Callable[[], None]]) -> Iterator[None]:
    """Calls the first at the first signal, the second at the next, and so on; further ones do nothing.

    For the last work of a process: once it is over, its outcome stands, and so signals are passed over until the
    process ends. (An interpreter that ends would restore a handler of ours to the system's, which ends it by the
    signal; what is ignored stays so.)
    """
    left = list(answers)

    def answer(number: int, frame: FrameType | None) -> None:
        del number, frame
        if left:
            left.pop(0)()

    for number in SIGNALS:
        signal.signal(number, answer)
    try:
        yield
    finally:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
