"""How recipes of other tools name what an engine does: ``exports.toml``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from canserve.rules.table import load

FILE = "exports.toml"


@dataclass(frozen=True, slots=True)
class Runtime:
    """How a tool starts an engine."""

    name: str
    drops: tuple[str, ...]
    """Flags with a value that the tool sets itself."""


@cache
def sparkrun(engine: str, over: str) -> Runtime | None:
    """The runtime of an engine over Ray, its own launcher, or one machine; None: that tool has none."""
    for row in load(FILE).rows("sparkrun"):
        if (row.text("engine"), row.text("over")) == (engine, over):
            return Runtime(row.text("runtime"), row.texts("drops"))
    return None
