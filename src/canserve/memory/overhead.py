"""Memory outside torch: the CUDA context, libraries' workspaces, buffers of collective operations; what is free.

All figures are intervals around public start-up logs; their sources stand in ``why``.
"""

from __future__ import annotations

from collections.abc import Sequence

from canserve.memory.quantity import GIB, Quantity
from canserve.subjects.parallel import Device, Parallel, Placement

LARGE = 60 * GIB
"""Devices with more have links of their own between them, whose buffers are larger."""


def spread_groups(placement: Placement) -> frozenset[tuple[int, int]]:
    """Tensor parallel groups, by replica and stage, whose ranks lie on several machines."""
    machines: dict[tuple[int, int], set[str]] = {}
    for rank in placement.ranks:
        machines.setdefault((rank.dp, rank.pp), set()).add(rank.machine)
    return frozenset(group for group, names in machines.items() if len(names) > 1)


def outside_torch(parallel: Parallel, device: Device, spread: bool) -> Quantity:
    """What grows outside torch between the start and the end of the start-up profile.

    ``spread``: the ranks of the tensor parallel group lie on several machines.
    """
    if device.unified:
        return _gib(1.6, 0.1, 5.0, "on unified memory also what the host's processes take; logs of GB10")
    if parallel.tp == 1 and parallel.pp == 1:
        return _gib(0.3, 0.15, 1.2, "context and libraries; logs of H100 print 0.24 to 0.46 GiB")
    if spread or parallel.tp == 1:
        return _gib(1.0, 0.3, 2.5, "buffers of collectives between machines")
    why = "buffers of collectives; logs of H100 print 2.06 to 2.21 GiB, starts with NVLink multicast off 0.54 to 0.75"
    return _gib(1.9, 0.45, 2.7, why)


def free_at_start(devices: Sequence[Device], placement: Placement, at: int) -> Quantity:
    """Bytes free when the engine looks first: what is free now, less what its own start takes."""
    device = devices[at]
    if device.unified and device.free is not None:
        low = device.free if device.free_low is None else device.free_low
        why = "read on the machine; the lower figure counts the page cache as taken, as some releases do"
        return _at_least_none(device.free - GIB, min(low - 2 * GIB, device.free - GIB), device.free, why)
    if device.unified:
        why = "not looked at; of 121.7 GiB, public logs of GB10 show 101 to 116 GiB free, page cache counted or not"
        return Quantity(0.94 * device.total, 0.82 * device.total_low, 0.98 * device.total_high, why)
    taken = taken_at_start(device, placement)
    total = Quantity(device.total, device.total_low, device.total_high, taken.why)
    if device.free is not None and device.free < device.total_high:
        words = f"{device.free >> 20} MiB are free on the machine, less what the engine's own start takes"
        total = Quantity(
            min(device.total, device.free), min(device.total_low, device.free), device.free, words
        )
    return _at_least_none(
        total.value - taken.value, total.low - taken.high, total.high - taken.low, total.why
    )


def taken_at_start(device: Device, placement: Placement) -> Quantity:
    """Of a device with memory of its own: what the engine's own start takes before it looks at what is free."""
    why = (
        "an idle device; logs of H100 print 78.68 of 79.19 GiB, 77.18 to 77.66 with several ranks; of RTX 3090"
        " 22.8 of 23.6"
    )
    if placement.parallel.tp == 1:
        return _gib(0.5, 0.2, 1.0, why)
    return _gib(1.8, 0.8, 2.6, why) if device.total > LARGE else _gib(0.9, 0.4, 2.6, why)


def _at_least_none(value: float, low: float, high: float, why: str) -> Quantity:
    return Quantity(max(value, 0.0), max(low, 0.0), max(high, 0.0), why)


def total_memory(device: Device) -> Quantity:
    """The device's, as CUDA reports it."""
    return Quantity(device.total, device.total_low, device.total_high, device.why)


def _gib(value: float, low: float, high: float, why: str) -> Quantity:
    return Quantity(value * GIB, low * GIB, high * GIB, why)
