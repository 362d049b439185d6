"""The only thread pool: a few slow, independent jobs at once, their results in order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import TypeVar

from canserve.trees.unwanted import until

T = TypeVar("T")
R = TypeVar("R")

WIDTH = 6
"""Jobs at once. Package indexes and ssh servers begin to refuse at about eight new connections."""


def fanout(job: Callable[[T], R], items: Sequence[T], width: int = WIDTH) -> list[R]:
    """``job`` of every item, in the items' order; at most ``width`` run at once.

    The first exception, in the items' order, is raised when all that had begun have ended; what had not
    begun by then is not started. Whoever interrupts it does not want to wait: looks that had begun end at once.
    """
    if len(items) <= 1 or width <= 1:
        return [job(item) for item in items]
    from concurrent.futures import ThreadPoolExecutor

    interrupted = threading.Event()
    pool = ThreadPoolExecutor(min(width, len(items)), thread_name_prefix="fanout")
    try:
        with until(interrupted):
            going = [pool.submit(copy_context().run, job, item) for item in items]
        return [each.result() for each in going]
    except KeyboardInterrupt:
        interrupted.set()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
