"""While a deployment is asked, its ranks are looked at every few seconds, for whoever watches."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from canserve.api.phases import phases_of, ranks_of
from canserve.api.running import Found
from canserve.run.ranks_now import Place, Ranks
from canserve.subjects.inquiry import RankNow
from canserve.verify.ledger import Ledger

EVERY = 4.0
"""Seconds between the end of a look and the next."""


@contextmanager
def ranks_told(found: Found, ledger: Ledger | None) -> Iterator[None]:
    """Look as long as this lasts; a look that is under way when it ends is broken off."""
    if ledger is None:
        yield
        return
    over = threading.Event()
    watcher = threading.Thread(target=_watch, args=(found, ledger, over), name="ranks", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def ended_since(found: Found) -> tuple[RankNow, ...]:
    """Processes that were alive when it was found, and are no more: one more look."""
    seen = _ranks(found, lambda: False, {}).look()
    alive = {one.process for one in found.running if one.alive is not False}
    return tuple(one for one in seen if one.alive is False and one.process in alive)


def _watch(found: Found, ledger: Ledger, over: threading.Event) -> None:
    ranks = _ranks(found, over.is_set, phases_of((found,), over.is_set)[found.run])
    while not over.is_set():
        seen = ranks.look()
        if not over.is_set():
            ledger.ranks(seen)
        over.wait(EVERY)


def _ranks(found: Found, stop: Callable[[], bool], said: Mapping[int, tuple[str, ...]]) -> Ranks:
    places = tuple(
        Place(one, ranks_of(found, one), ", ".join(said.get(one.process, ()))) for one in found.running
    )
    nodes = {node.name: node for node in found.nodes}
    return Ranks(found.run, found.state, found.program or "docker", nodes, places, stop)
