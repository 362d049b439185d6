"""One machine, from the answers to every probe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from canserve.facts import Cause, Evidence, Fact, Known, Missing
from canserve.probes.host.accelerators import accelerators, described
from canserve.probes.host.amd import AMD, AMD_NAMES, ROCM
from canserve.probes.host.cached_models import CACHED_MODELS
from canserve.probes.host.confines import CONFINES, confined
from canserve.probes.host.containers import CDI, CONTAINERS, DOCKER, PODMAN, PODMAN_CONTAINERS
from canserve.probes.host.devices import DEVICES
from canserve.probes.host.disks import DISKS, SHARED_MEMORY, free_for_weights
from canserve.probes.host.driver import CUDA, DRIVER
from canserve.probes.host.environments import ENVIRONMENTS
from canserve.probes.host.firewall import FIREWALL_RULES
from canserve.probes.host.gpus import GPUS, INSTANCES, PLACES, PROCESSES
from canserve.probes.host.images import DOCKER_IMAGES, PODMAN_IMAGES
from canserve.probes.host.limits import (
    CLOCK,
    CLUSTER_FILES,
    MEMLOCK,
    NCCL_CONF,
    NETWORK_ENVIRONMENT,
    REMOVE_IPC,
)
from canserve.probes.host.network import (
    ADDRESSES,
    FIREWALL,
    INTERFACES,
    LISTENING,
    OWN_NAME,
    RDMA,
    RDMA_NODES,
    with_addresses,
)
from canserve.probes.host.probe import Probe, Seen
from canserve.probes.host.system import CPU_ARCH, HOST_MEMORY, KERNEL, LIBC, SYSTEM
from canserve.subjects.host import ContainerEngine
from canserve.transport.frames import Answer, Section
from canserve.transport.reach import Look

PROBES: tuple[Probe, ...] = (
    CLOCK, CPU_ARCH, KERNEL, SYSTEM, LIBC, HOST_MEMORY, DEVICES, PLACES, INTERFACES, ADDRESSES, RDMA, RDMA_NODES, MEMLOCK,
    REMOVE_IPC, AMD, ROCM, CDI, DRIVER, SHARED_MEMORY, OWN_NAME, LISTENING, NCCL_CONF, NETWORK_ENVIRONMENT, GPUS, PROCESSES, INSTANCES, CUDA,
    AMD_NAMES, FIREWALL, FIREWALL_RULES, CLUSTER_FILES, DOCKER, CONTAINERS, CONFINES, PODMAN, PODMAN_CONTAINERS, DOCKER_IMAGES, PODMAN_IMAGES, ENVIRONMENTS, DISKS, CACHED_MODELS,
)  # fmt: skip
"""In the order in which they are asked: what may hang comes last, so that a cut takes the least."""

SECTIONS = tuple(
    Section(probe.name, probe.script, probe.limit, quick=probe.quick, before=probe.before) for probe in PROBES
)
_AS_READ = (
    CPU_ARCH, KERNEL, SYSTEM, LIBC, HOST_MEMORY, RDMA, RDMA_NODES, MEMLOCK, SHARED_MEMORY, OWN_NAME, LISTENING, REMOVE_IPC,
    NCCL_CONF, NETWORK_ENVIRONMENT, ROCM, FIREWALL, FIREWALL_RULES, CLUSTER_FILES, ENVIRONMENTS, DISKS, CACHED_MODELS,
)  # fmt: skip
"""Probes whose answer is the fact of the same name."""


def machine_facts(look: Look) -> dict[str, Fact[Any]]:
    """Every fact of the machine that the look gave, or why it did not."""
    read = {probe.name: _read(probe, look) for probe in PROBES}
    found = accelerators(look.subject, read)
    facts: dict[str, Fact[Any]] = {probe.name: read[probe.name] for probe in _AS_READ}
    facts |= described(look.subject, found, read["host_memory"], _maker(read))
    facts["accelerators"] = found
    facts["driver"] = _present(look.subject, read["driver"], "NVIDIA driver")
    facts["cuda"] = _present(look.subject, read["cuda"], "nvidia-smi, which says the CUDA release")
    facts["disk"] = free_for_weights(read["disks"])
    facts["interfaces"] = with_addresses(read["interfaces"], read["addresses"])
    facts["container_engines"] = _engines(read)
    facts["containers"] = confined(_of_both(read, "containers", "podman_containers"), read["confines"])
    facts["images"] = _of_both(read, "docker_images", "podman_images")
    facts["clock_skew"] = _skew(look, read["clock"])
    return facts


def _read(probe: Probe, look: Look) -> Fact[Any]:
    answer = look.section(probe.name)
    if not isinstance(answer, Answer):
        return answer
    seen = Seen(look.subject, probe.how, look.when, answer)
    if not answer.whole:
        return seen.missing(
            Cause.UNREADABLE, f"the answer to {probe.name} is longer than {probe.limit} bytes"
        )
    return probe.parse(seen)


def _maker(read: Mapping[str, Fact[Any]]) -> str | None:
    nvidia, amd = read["gpus"], read["amd"]
    if isinstance(nvidia, Known) and nvidia.value:
        return "nvidia"
    return "amd" if isinstance(amd, Known) and amd.value else None


def _present(subject: str, fact: Fact[str | None], what: str) -> Fact[str]:
    """A fact that has no value where the thing itself is not there."""
    if isinstance(fact, Missing):
        return fact
    if fact.value is None:
        return Missing(Cause.UNAVAILABLE, f"{subject} has no {what}", fact.evidence)
    return Known(fact.value, fact.evidence)


def _engines(read: Mapping[str, Fact[Any]]) -> Fact[tuple[ContainerEngine, ...]]:
    found: list[ContainerEngine] = []
    looks: list[Evidence] = []
    for name in ("docker", "podman"):
        fact = read[name]
        if isinstance(fact, Missing):
            return fact
        looks.extend(fact.evidence)
        if fact.value is not None:
            found.append(fact.value)
    cdi = read["cdi"]
    if isinstance(cdi, Known) and cdi.value:
        looks.extend(cdi.evidence)
        found = [engine if engine.devices else replace(engine, devices=cdi.value) for engine in found]
    return Known(tuple(found), tuple(looks))


def _of_both(read: Mapping[str, Fact[Any]], *sections: str) -> Fact[tuple[Any, ...]]:
    """What each container engine lists, together."""
    both = [read[section] for section in sections]
    for fact in both:
        if isinstance(fact, Missing):
            return fact
    found = tuple(one for fact in both if isinstance(fact, Known) for one in fact.value or ())
    return Known(found, tuple(look for fact in both for look in fact.evidence))


def _skew(look: Look, clock: Fact[int]) -> Fact[int]:
    """Outside the span in which the answer was given; both clocks are cut to seconds."""
    if isinstance(clock, Missing):
        return clock
    early, late = clock.value - (look.begun - 1), clock.value - (look.ended + 1)
    return Known(round(early) if early < 0 else round(late) if late > 0 else 0, clock.evidence)
