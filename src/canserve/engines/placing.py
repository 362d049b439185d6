"""Which ranks lie on which machine, as commands need it."""

from __future__ import annotations

from canserve.subjects.launch import Host, Launch
from canserve.subjects.parallel import Placement

_VISIBLE = {"nvidia": "CUDA_VISIBLE_DEVICES", "amd": "HIP_VISIBLE_DEVICES"}


def by_host(placement: Placement) -> dict[str, tuple[int, ...]]:
    """Machine -> numbers of its ranks, machines in the order of their first rank."""
    found: dict[str, list[int]] = {}
    for rank in placement.ranks:
        found.setdefault(rank.machine, []).append(rank.number)
    return {machine: tuple(numbers) for machine, numbers in found.items()}


def even(placement: Placement) -> bool:
    """Whether every machine holds the same number of consecutive ranks, as launchers with node ranks ask."""
    groups = list(by_host(placement).values())
    return len({len(group) for group in groups}) == 1 and [n for g in groups for n in g] == [
        rank.number for rank in placement.ranks
    ]


def visible_devices(launch: Launch, host: Host) -> dict[str, str]:
    """The variable that picks accelerators, where these are not simply the first ones."""
    mine = [rank for rank in launch.placement.ranks if rank.machine == host.name]
    devices = [rank.device for rank in mine]
    if devices == list(range(len(devices))) or host.vendor not in _VISIBLE:
        return {}
    return {_VISIBLE[host.vendor]: ",".join(map(str, devices))}
