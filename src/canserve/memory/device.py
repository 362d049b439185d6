"""Accelerators as memory rules see them: what CUDA reports as a device's total, and how sure that is."""

from __future__ import annotations

from dataclasses import replace

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
REPORTED = (0.99, 0.965, 1.0)
"""Of what the driver's tool prints, what CUDA reports: 0.971 (T4), 0.986 (RTX 4090), 0.994 (H100), 0.996 (H200)."""
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
        ends = int(seen * (1 - SPREAD)), int(seen * (1 + SPREAD))
        return _with_free(Device(machine, seen, *ends, None, unified, why))
    if isinstance(machine.reported_memory, Known) and not unified:
        seen = machine.reported_memory.value.count
        likely, least, most = (int(seen * share) for share in REPORTED)
        why = f"{REPORTED[0]:g} of the {seen >> 20} MiB that the driver's tool prints"
        return _with_free(Device(machine, likely, least, most, None, unified, why))
    if isinstance(machine.memory, Missing):
        look = machine.memory.evidence
        return Missing(Cause.UNAVAILABLE, machine.memory.why, look, "state its memory in a cluster file")
    nominal = machine.memory.value.count
    value, low, high = UNIFIED if unified else SHARE
    # What is sold as 80 GB has 80 GiB of chips, most often; 141 GB and 180 GB are what the driver leaves of more.
    binary = nominal * GIB_IN_GB
    why = f"nobody looked: {value:g} of the nominal {nominal // 10**9} GB, {low:g} to {high:g}"
    device = Device(machine, int(binary * value), int(nominal * low), int(binary * high), None, unified, why)
    return _with_free(device)


def _with_free(device: Device) -> Device:
    """With what is free now, where the machine was looked at."""
    machine = device.machine
    if device.unified:
        if isinstance(machine.host_memory, Missing):
            return device
        memory = machine.host_memory.value
        free = memory.available or memory.free
        return replace(device, free=free.count, free_low=min(memory.free.count, free.count))
    if isinstance(machine.accelerators, Missing) or not machine.accelerators.value:
        return device
    found = [gpu.free for gpu in machine.accelerators.value]
    if any(free is None for free in found):
        return device
    return replace(device, free=min(free.count for free in found if free is not None))
