"""While a deployment is asked, its ranks are looked at every few seconds, for whoever watches."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from canserve.api.phases import phases_of, ranks_of
from canserve.api.running import Found

if TYPE_CHECKING:
    from canserve.run.ranks_now import Ranks
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


def _watch(found: Found, ledger: Ledger, over: threading.Event) -> None:
    ranks = _ranks(found, over)
    while not over.is_set():
        seen = ranks.look()
        if not over.is_set():
            ledger.ranks(seen)
        over.wait(EVERY)


def _ranks(found: Found, over: threading.Event) -> Ranks:
    from canserve.run.ranks_now import Place, Ranks

    said = phases_of((found,))[found.run]
    places = tuple(
        Place(one, ranks_of(found, one), ", ".join(said.get(one.process, ()))) for one in found.running
    )
    nodes = {node.name: node for node in found.nodes}
    return Ranks(found.run, found.state, found.program or "docker", nodes, places, over.is_set)
