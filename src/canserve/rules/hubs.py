"""Public image hubs, and the words that are searched where none are given: ``hubs.toml``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from canserve.rules.table import Row, load

FILE = "hubs.toml"
Kind = Literal["docker-hub", "quay", "github"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class Hub:
    """A place where images are searched by words."""

    kind: Kind
    """The form of its answers."""
    address: str
    """Of its interface, without a slash at the end."""
    registry: str
    """Host under which its images are pulled."""


def hubs() -> tuple[Hub, ...]:
    """Those that are asked where the user names none."""
    return tuple(_hub(row) for row in load(FILE).rows("hub"))


def words() -> tuple[str, ...]:
    """What is searched where the user names no words."""
    return tuple(row.text("text") for row in load(FILE).rows("words"))


def _hub(row: Row) -> Hub:
    kind = row.text("kind")
    if kind not in KINDS:
        raise row.wrong(f"no form of hub is called {kind!r}")
    return Hub(kind, row.text("address"), row.text("registry"))
