"""Accelerators as memory rules see them: what CUDA reports as a device's total, and how sure that is."""

from __future__ import annotations

from canserve.facts import Cause, Fact, Known, Missing
from canserve.subjects.machine import Machine
from canserve.subjects.parallel import Device

SPREAD = 0.004
"""Two machines of one kind differ by so much: drivers reserve different amounts."""
SHARE = (0.97, 0.9, 1.0)
"""Of the nominal figure in GiB, what CUDA reports where nobody looked: value, low, high. The profiles whose figure
is known lie between 0.91 (error correction in plain memory: T4, L4) and 0.99 (H100, A100, H200 by its 141 GB)."""
UNIFIED = (0.93, 0.85, 0.98)
"""The same of memory that the system shares: GB10 reports 121.69 of 128, Thor's system 122 GiB."""
GIB_IN_GB = (1 << 30) / 10**9


def devices(machine: Machine) -> Fact[tuple[Device, ...]]:
    """Every accelerator of a machine; Missing where the machine states no memory."""
    if isinstance(machine.gpus, Missing):
        return machine.gpus
    one = _device(machine)
    if isinstance(one, Missing):
        return one
    return Known((one,) * machine.gpus.value, machine.gpus.evidence)


def one_device(machine: Machine) -> Device | Missing:
    """One accelerator of a machine, whatever their number."""
    return _device(machine)


def _device(machine: Machine) -> Device | Missing:
    unified = isinstance(machine.unified_memory, Known) and machine.unified_memory.value
    if isinstance(machine.visible_memory, Known):
        seen = machine.visible_memory.value.count
        evidence = machine.visible_memory.evidence
        why = evidence[0].saw if evidence else "stated"
        return Device(machine, seen, int(seen * (1 - SPREAD)), int(seen * (1 + SPREAD)), None, unified, why)
    if isinstance(machine.memory, Missing):
        look = machine.memory.evidence
        return Missing(Cause.UNAVAILABLE, machine.memory.why, look, "state its memory in a cluster file")
    nominal = machine.memory.value.count
    value, low, high = UNIFIED if unified else SHARE
    # What is sold as 80 GB has 80 GiB of chips, most often; 141 GB and 180 GB are what the driver leaves of more.
    binary = nominal * GIB_IN_GB
    why = f"nobody looked: {value:g} of the nominal {nominal // 10**9} GB, {low:g} to {high:g}"
    return Device(machine, int(binary * value), int(nominal * low), int(binary * high), None, unified, why)
