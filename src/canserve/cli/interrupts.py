"""Ctrl-C while machines are changed: what has begun is brought to its end, then taken away; a second one ends that too."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ONCE = 0.5
"""Seconds within which signals are one: some send theirs to a process and then to its group, as ``timeout`` does."""


@contextmanager
def interrupts(answers: Sequence[Callable[[], None]]) -> Iterator[None]:
    """Calls the first at the first signal, the second at the next, and so on; further ones do nothing.

    For the last work of a process: once it is over, its outcome stands, and so signals are passed over until the
    process ends. (An interpreter that ends would restore a handler of ours to the system's, which ends it by the
    signal; what is ignored stays so.)
    """
    left = list(answers)
    last = -ONCE

    def answer(number: int, frame: FrameType | None) -> None:
        nonlocal last
        del number, frame
        now = time.monotonic()
        again, last = now - last < ONCE, now
        if left and not again:
            left.pop(0)()

    for number in SIGNALS:
        signal.signal(number, answer)
    try:
        yield
    finally:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
