"""What is said of an engine whose memory nobody has written down yet."""

from __future__ import annotations

from collections.abc import Sequence

from canserve.facts import Cause, Evidence, Missing
from canserve.memory.quantity import Quantity
from canserve.memory.request import Request


def unmodelled(engine: str, request: Request, weights: Sequence[Quantity]) -> Missing:
    """The memory of such an engine: not known, rather than another engine's."""
    why = f"how {engine} {request.version} turns memory into cache is not known here"
    look = Evidence(
        "rules", f"memory_{engine}.toml", f"no such table; weights of {len(weights)} ranks unused"
    )
    return Missing(Cause.UNAVAILABLE, why, (look,), "start it once and read what it prints")
