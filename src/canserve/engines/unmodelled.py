"""What is said of an engine whose memory nobody has written down yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from canserve.engines.habits import Habitual
from canserve.facts import Cause, Evidence, Fact, Missing

if TYPE_CHECKING:
    from canserve.memory.quantity import Quantity
    from canserve.memory.request import Request, Serving


class Unmodelled(Habitual):
    """The part of an ``Engine`` that such engines share: weights as they are cut everywhere, and no more."""

    name: str

    def memory(self, request: Request, weights: Sequence[Quantity]) -> Fact[Serving]:
        """Not known, rather than another engine's."""
        why = f"how {self.name} {request.version} turns memory into cache is not known here"
        look = Evidence(
            "rules", f"memory_{self.name}.toml", f"no such table; weights of {len(weights)} ranks unused"
        )
        return Missing(Cause.UNAVAILABLE, why, (look,), "start it once and read what it prints")
