"""The best places for a layout's ranks on named machines, found by counting, not by trying permutations.

Tensor parallel groups talk most, so each lies within one machine where that is possible; where it is not, over
as few machines as possible, with equal shares. Stages of one replica follow each other, on the same machine as
long as it has room. Machines with more memory and bandwidth are used first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from canserve.facts import Known
from canserve.layout.question import Host
from canserve.subjects.parallel import Parallel, Rank


@dataclass(frozen=True, slots=True)
class Share:
    """How groups are formed: each of so many slots of equal size, every slot on one machine."""

    slot: int
    """Accelerators of one slot."""
    slots: int
    """Of one tensor parallel group; 1: the group lies on one machine."""
    hosts: int | None = None
    """How many machines are used, each with equally many accelerators; None: as it comes."""


@dataclass(frozen=True)
class Floor:
    """The machines of a question, strongest first."""

    hosts: tuple[Host, ...]

    @classmethod
    def of(cls, hosts: Sequence[Host]) -> Floor:
        """Sorted by memory and bandwidth; equal ones stay in the order in which they were named."""
        return cls(tuple(sorted((host for host in hosts if host.gpus), key=_strength, reverse=True)))

    @cached_property
    def counts(self) -> tuple[tuple[int, int], ...]:
        """(accelerators, how many machines have so many)."""
        found: dict[int, int] = {}
        for host in self.hosts:
            found[host.gpus] = found.get(host.gpus, 0) + 1
        return tuple(found.items())

    def slots(self, size: int) -> int:
        """How many slots of that size all machines have room for."""
        return sum(gpus // size * number for gpus, number in self.counts)

    def share(self, parallel: Parallel, equal: bool) -> Share | None:
        """How the groups can be formed; None: they find no room, or not in equal shares."""
        return self._equal(parallel) if equal else self._any(parallel)

    def _any(self, parallel: Parallel) -> Share | None:
        replica = parallel.tp * parallel.pp
        if self.slots(replica) >= parallel.dp:  # whole replicas, each on one machine
            return Share(replica, 1)
        groups = parallel.pp * parallel.dp
        for slots in _divisors(parallel.tp):
            slot = parallel.tp // slots
            if self.slots(slot) >= groups * slots:
                return Share(slot, slots)
        return None

    def _equal(self, parallel: Parallel) -> Share | None:
        """Equal shares, of as few machines as possible; a group fills whole machines, or lies within one."""
        world = parallel.ranks
        for hosts in _divisors(world):
            each = world // hosts
            room = sum(number for gpus, number in self.counts if gpus >= each)
            if room >= hosts and (each % parallel.tp == 0 or parallel.tp % each == 0):
                slot = min(each, parallel.tp)
                return Share(slot, parallel.tp // slot, hosts)
        return None

    def ranks(self, parallel: Parallel, share: Share) -> tuple[Rank, ...]:
        """Every rank's accelerator, dp-major, then pipeline stage, then tensor parallel rank."""
        devices = self._devices(parallel, share)
        ranks = []
        for number in range(parallel.ranks):
            group, tp = divmod(number, parallel.tp)
            dp, pp = divmod(group, parallel.pp)
            host, device = next(devices)
            ranks.append(Rank(number, tp, pp, dp, host.name, device))
        return tuple(ranks)

    def _devices(self, parallel: Parallel, share: Share) -> Iterator[tuple[Host, int]]:
        if share.hosts is None:
            for host in self.hosts:
                for device in range(host.gpus // share.slot * share.slot):
                    yield host, device
            return
        each = parallel.ranks // share.hosts
        for host in [host for host in self.hosts if host.gpus >= each][: share.hosts]:
            for device in range(each):
                yield host, device


@dataclass(frozen=True)
class Room:
    """Machines that have room, and how groups are formed on them."""

    floor: Floor
    share: Share

    def ranks(self, parallel: Parallel) -> tuple[Rank, ...]:
        """Every rank's accelerator, dp-major, then pipeline stage, then tensor parallel rank."""
        return self.floor.ranks(parallel, self.share)


def floors(hosts: Sequence[Host]) -> tuple[Floor, ...]:
    """One for the machines of each maker: accelerators of different makers do not serve one model together.

    A machine whose maker is not stated is taken to be like the others. The largest comes first.
    """
    makers = {host.machine.vendor.value for host in hosts if isinstance(host.machine.vendor, Known)}
    if len(makers) < 2:
        return (Floor.of(hosts),)
    groups = [[host for host in hosts if _made_by(host, maker)] for maker in sorted(makers)]
    groups.sort(key=lambda group: sum(host.gpus for host in group), reverse=True)
    return tuple(Floor.of(group) for group in groups)


def _made_by(host: Host, maker: str) -> bool:
    return isinstance(host.machine.vendor, Known) and host.machine.vendor.value == maker


def spans(ranks: Sequence[Rank], parallel: Parallel) -> bool:
    """Whether a tensor parallel group lies on more than one machine."""
    groups = (ranks[start : start + parallel.tp] for start in range(0, len(ranks), parallel.tp))
    return any(len({rank.machine for rank in group}) > 1 for group in groups)


def _divisors(number: int) -> Iterator[int]:
    return (each for each in range(1, number + 1) if number % each == 0)


def _strength(host: Host) -> tuple[int, int]:
    memory, bandwidth = host.machine.memory, host.machine.bandwidth
    return (
        memory.value.count if isinstance(memory, Known) else 0,
        bandwidth.value.per_second if isinstance(bandwidth, Known) else 0,
    )
