"""What ``canserve distribute --format json`` prints; the rules of ``shapes`` hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from canserve.run.transfer import Carried


@dataclass(frozen=True, slots=True)
class CommandShape:
    """A command on a machine."""

    machine: str
    argv: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CarriedShape:
    """What became of one thing on one machine."""

    what: str
    machine: str
    there: Annotated[bool | None, "null: a dry run would bring it."]
    road: Literal["there", "pull", "direct", "through"]
    source: Annotated[str | None, "The machine it came from."]
    moved_bytes: Annotated[int, "What passed over the network."]
    seconds: float
    digest: Annotated[str | None, "Verified on that machine."]
    note: str
    problem: Annotated[str | None, "Why it is not there."]
    commands: Annotated[tuple[CommandShape, ...], "What was run, or with --dry-run would be."]


@dataclass(frozen=True, slots=True)
class DistributeShape:
    """Everything that was to be brought, on every machine."""

    version: Literal[1]
    dry_run: bool
    carried: tuple[CarriedShape, ...]


def distribute_output(found: Sequence[Carried], dry: bool) -> DistributeShape:
    """As shapes."""
    return DistributeShape(1, dry, tuple(_carried(one, dry) for one in found))


def _carried(one: Carried, dry: bool) -> CarriedShape:
    pending = dry and one.problem is None and one.road != "there"
    return CarriedShape(
        what=one.what,
        machine=one.machine,
        there=None if pending else one.problem is None,
        road=one.road,
        source=one.source,
        moved_bytes=one.moved.count,
        seconds=round(one.seconds, 3),
        digest=one.digest,
        note=one.note,
        problem=one.problem,
        commands=tuple(CommandShape(machine, argv) for machine, argv in one.argv),
    )
