"""What the answers about accelerators mean together: which there are, or that there are none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from canserve.facts import Cause, Evidence, Fact, Known, Missing, derive
from canserve.probes.host.gpus import joined
from canserve.rules.machines import KIND
from canserve.subjects.host import Accelerator, HostMemory

T = TypeVar("T")

NOT_THERE = ("vendor", "gpu", "capability", *sorted(KIND))
"""Facts that a machine without accelerators has not, whatever is said of its kind."""


def accelerators(subject: str, facts: dict[str, Fact[Any]]) -> Fact[tuple[Accelerator, ...]]:
    """All of one maker's tools, or else the proof that there are none."""
    nvidia, amd = facts["gpus"], facts["amd"]
    if isinstance(nvidia, Known) and nvidia.value:
        return joined(nvidia, facts["gpu_processes"], facts["gpu_instances"], facts["gpu_places"])
    if isinstance(amd, Known) and amd.value:
        return _named(amd, facts["amd_names"])
    if isinstance(nvidia, Missing):
        return nvidia
    if isinstance(amd, Missing):
        return amd
    seen: Fact[frozenset[str]] = facts["devices"]
    if isinstance(seen, Missing):
        return seen
    looks = (*nvidia.evidence, *amd.evidence, *seen.evidence)
    if seen.value:
        makers = " and ".join(sorted(seen.value)).replace("any", "unnamed")
        why = f"{subject}: an accelerator ({makers}) is there, but no tool of its driver describes it"
        return Missing(Cause.UNAVAILABLE, why, looks, "make nvidia-smi or rocm-smi work there")
    return Known((), looks)


def _named(
    found: Known[tuple[Accelerator, ...]], names: Fact[tuple[str, ...] | None]
) -> Known[tuple[Accelerator, ...]]:
    if isinstance(names, Missing) or names.value is None or len(names.value) != len(found.value):
        return found
    both = tuple(replace(gpu, name=name) for gpu, name in zip(found.value, names.value, strict=True))
    return Known(both, (*found.evidence, *names.evidence))


def described(
    subject: str, found: Fact[tuple[Accelerator, ...]], memory: Fact[HostMemory], maker: str | None
) -> dict[str, Fact[Any]]:
    """The machine's facts that follow from its accelerators; they hold where all are alike.

    ``maker``: whose tool described them; None: nobody's. A fact that is Missing here does not hold of the machine as
    a whole, whatever else is said of it; what the driver does not say is left out.
    """
    if isinstance(found, Missing):
        return {}
    gpus, looks = found.value, found.evidence
    if maker == "nvidia":
        looks = looks[:1]  # the others say who holds them, and how they are split
    if not gpus:
        nothing = Missing(
            Cause.UNAVAILABLE, f"{subject} has no accelerator", looks, "name a machine that has one"
        )
        return {**dict.fromkeys(NOT_THERE, nothing), "gpus": Known(0, looks), "reported_memory": nothing}
    facts: dict[str, Fact[Any] | None] = {"vendor": Known(maker, looks), "gpus": Known(len(gpus), looks)}
    facts["gpu"] = _same(subject, gpus, looks, lambda gpu: gpu.name)
    if maker == "amd":
        facts["capability"] = Known(None, looks)
        facts["arch_name"] = _same(subject, gpus, looks, lambda gpu: gpu.arch_name)
    else:
        capability = facts["capability"] = _same(subject, gpus, looks, lambda gpu: gpu.capability)
        facts["arch_name"] = capability and derive(capability, lambda it: f"sm_{it.tenfold}")
        facts |= _unified(gpus, looks, memory)
    totals = [gpu.total for gpu in gpus if gpu.total is not None]
    if len(totals) == len(gpus):
        facts["reported_memory"] = Known(min(totals), looks)
    if any(gpu.mig for gpu in gpus):
        why = f"{subject}: its accelerators are split (MIG instances or compute partitions): each is smaller than the whole"
        split = Missing(Cause.UNAVAILABLE, why, looks, "state gpus and memory of one part in a cluster file")
        facts |= dict.fromkeys(("gpus", "memory", "visible_memory", "reported_memory"), split)
    elif isinstance(facts["gpu"], Missing):
        facts |= dict.fromkeys(KIND, facts["gpu"])
    return {name: fact for name, fact in facts.items() if fact is not None}


def _unified(
    gpus: tuple[Accelerator, ...], looks: tuple[Evidence, ...], memory: Fact[HostMemory]
) -> dict[str, Fact[Any]]:
    """An accelerator without memory of its own shares the system's, and CUDA reports all of that as its own."""
    if all(gpu.total is not None for gpu in gpus):
        return {"unified_memory": Known(False, looks)}
    if any(gpu.total is not None for gpu in gpus):
        return {}
    unified: dict[str, Fact[Any]] = {"unified_memory": Known(True, looks)}
    return (
        unified
        if isinstance(memory, Missing)
        else {**unified, "visible_memory": derive(memory, lambda m: m.total)}
    )


def _same(
    subject: str,
    gpus: tuple[Accelerator, ...],
    looks: tuple[Evidence, ...],
    of: Callable[[Accelerator], T | None],
) -> Fact[T] | None:
    """What all of them have in common; None: the driver does not say it."""
    values = {of(gpu) for gpu in gpus}
    if len(values) > 1:
        said = ", ".join(sorted(str(value) for value in values))
        why = f"{subject}: its accelerators are not alike: {said}"
        return Missing(
            Cause.UNREADABLE, why, looks, "name one kind with CUDA_VISIBLE_DEVICES and a cluster file"
        )
    value = values.pop()
    return None if value is None else Known(value, looks)
