"""How a deployment is started: which process runs where, with which words and which environment."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from canserve.subjects.build import Build
from canserve.subjects.model import Model
from canserve.subjects.parallel import Placement


@dataclass(frozen=True, slots=True)
class Host:
    """A machine as commands name it."""

    name: str
    """As in ``Rank.machine``."""
    ip: str | None = None
    """On the network that joins the machines; None: not known."""
    interface: str | None = None
    """Of that network: ``enp1s0f0np0``."""
    vendor: str | None = None
    """Of its accelerators: ``nvidia``, ``amd`` ..."""

    @property
    def placeholder(self) -> str:
        """The name under which its unknown IP address stands in a command: ``HEAD_IP``."""
        return re.sub(r"[^A-Z0-9]+", "_", self.name.upper()).strip("_") + "_IP"


@dataclass(frozen=True, slots=True)
class Launch:
    """What is to be started: one model on one layout with one build."""

    model: Model
    build: Build
    placement: Placement
    hosts: tuple[Host, ...]
    """Those that hold ranks, the head first."""
    options: Mapping[str, object] = field(default_factory=dict)
    """Engine options under the engine's own names, as in a memory request. Degrees of parallelism come from
    the placement."""


@dataclass(frozen=True, slots=True)
class Process:
    """One process, exactly as it is started."""

    host: str
    ranks: tuple[int, ...]
    """The ranks that it starts; empty: it only joins the machines."""
    argv: tuple[str, ...]
    """A word may hold ``$HEAD_IP``: an address that is not known yet, listed in ``Start.placeholders``."""
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Start:
    """Everything that is started, in this order."""

    processes: tuple[Process, ...]
    placeholders: Mapping[str, str] = field(default_factory=dict)
    """What stands in commands and is not known: ``HEAD_IP`` -> in words, what belongs there."""
    notes: tuple[str, ...] = ()


def filled(processes: Sequence[Process], addresses: Mapping[str, str]) -> tuple[Process, ...]:
    """The processes with addresses in place of their names: ``$HEAD_IP`` -> ``10.0.0.1``."""

    def with_them(word: str) -> str:
        for name in sorted(addresses, key=len, reverse=True):  # $A_B_IP is not $A followed by text
            word = word.replace(f"${name}", addresses[name])
        return word

    return tuple(
        replace(
            one,
            argv=tuple(map(with_them, one.argv)),
            environment={name: with_them(value) for name, value in one.environment.items()},
        )
        for one in processes
    )
