"""A cluster: named machines, and how they reach each other."""

from __future__ import annotations

from dataclasses import dataclass

from canserve.facts import Fact
from canserve.subjects.links import NOT_TRIED, Link
from canserve.subjects.machine import NOT_LOOKED, Machine
from canserve.subjects.preflight import NOT_RUN, Preflight


@dataclass(frozen=True, slots=True)
class Node:
    """One machine of a cluster file."""

    name: str
    machine: Machine
    address: str | None
    """ssh destination."""
    through: str | None
    """Name of the node that is the only way to it."""
    internet: bool | None
    ip: str | None = None
    """On the network over which the machines serve together; not the one that ssh takes, in general."""
    interface: str | None = None
    """Of that network: ``enp1s0f0np0``."""
    look: bool = True
    """Whether it may be looked at, where it has an address."""

    @property
    def looked_at(self) -> bool:
        """Whether somebody tried to look at it; else it is known from a profile or a file alone."""
        return self.machine.clock_skew is not NOT_LOOKED


@dataclass(frozen=True, slots=True)
class Cluster:
    """Machines that serve one model together."""

    subject: str
    nodes: tuple[Node, ...]
    links: Fact[tuple[Link, ...]] = NOT_TRIED
    """For every ordered pair, one for each address that the second would advertise."""
    preflight: Fact[Preflight] = NOT_RUN
