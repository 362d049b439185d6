"""What is free when an engine starts, on machines that were looked at and on those that were not."""

from __future__ import annotations

from dataclasses import replace

from canserve.facts import Evidence, Known
from canserve.memory.device import devices, one_device
from canserve.memory.overhead import free_at_start
from canserve.memory.quantity import GIB, Quantity
from canserve.rules.machines import profile
from canserve.subjects.host import Accelerator, HostMemory
from canserve.subjects.machine import Machine
from canserve.subjects.parallel import Device, Parallel, Placement, Rank
from canserve.units import Bytes

SEEN = (Evidence("box", "nvidia-smi", "read"),)
MIB = 1 << 20


def kind(name: str) -> Machine:
    found = profile(name)
    assert found is not None
    return found


def with_gpus(machine: Machine, *free: int | None) -> Machine:
    gpus = tuple(
        Accelerator(n, "g", None, None, None, None, None if f is None else Bytes(f * MIB), None)
        for n, f in enumerate(free)
    )
    return replace(machine, accelerators=Known(gpus, SEEN))


def device(machine: Machine) -> Device:
    found = one_device(machine)
    assert isinstance(found, Device)
    return found


def start(machine: Machine) -> Quantity:
    placement = Placement(Parallel(), (Rank(0, 0, 0, 0, "box", 0),), (1,))
    return free_at_start((device(machine),), placement, 0)


def test_an_idle_device_that_was_looked_at_is_like_one_that_was_not() -> None:
    # nvidia-smi on an idle H100: 81008 of 81559 MiB free; engines print 78.68 of 79.19 GiB at their start.
    looked, guessed = start(with_gpus(kind("h100"), 81008, 81008)), start(kind("h100"))
    assert abs(looked.value - guessed.value) < GIB / 8
    assert looked.low <= 78.68 * GIB <= looked.high


def test_what_others_hold_is_not_free() -> None:
    found = start(with_gpus(kind("h100"), 81008, 40211))
    assert found.high < 40211 * MIB and found.value > 38 * GIB and "40211 MiB are free" in found.why


def test_nothing_free_is_nothing_not_less() -> None:
    found = start(with_gpus(kind("h100"), 300))
    assert (found.low, found.value) == (0, 0) and found.high <= 300 * MIB


def test_a_driver_that_does_not_say_what_is_free() -> None:
    assert start(with_gpus(kind("h100"), 81008, None)) == start(kind("h100"))


def test_unified_memory_is_free_as_far_as_the_page_cache_is_given_up() -> None:
    gib = {name: Bytes(number * GIB) for name, number in (("all", 121), ("free", 55), ("can", 112))}
    memory = HostMemory(gib["all"], gib["free"], gib["can"], None, None, None, None, None)
    found = start(replace(kind("dgx-spark"), host_memory=Known(memory, SEEN)))
    assert (found.low, found.value, found.high) == (53 * GIB, 111 * GIB, 112 * GIB)
    assert "page cache" in found.why


def test_a_machine_without_accelerators_has_no_device() -> None:
    none = replace(kind("h100"), gpus=Known(0, SEEN), accelerators=Known((), SEEN))
    found = devices(none)
    assert isinstance(found, Known) and found.value == ()


def test_a_share_of_an_uncertain_total_leaves_what_is_certain() -> None:
    total = Quantity(260.0, 224.0, 268.0, "nobody looked")
    left = total.beside(total.times(0.9))
    assert round(left.low, 6) == 22.4 and round(left.high, 6) == 26.8
    apart = total.minus(total.times(0.9))
    assert apart.low < 0 < apart.high
    grows = Quantity(1.0, 0.0, 2.0, "").beside(Quantity(2.0, 0.0, 4.0, ""))
    assert (grows.low, grows.value, grows.high) == (-2.0, -1.0, 0.0)
