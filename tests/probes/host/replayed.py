"""Recorded machines, replayed: what their sections answered, without a machine."""

from __future__ import annotations

from pathlib import Path

from canserve.probes.host.reading import PROBES, machine_facts
from canserve.probes.live import merged
from canserve.probes.machine import parse_cluster
from canserve.subjects.machine import Machine
from canserve.transport.frames import Answer
from canserve.transport.reach import Look

RECORDED = Path(__file__).parent / "recorded"
WHEN = "2026-11-30T10:00:00+00:00"
NOW = 1796032800.0
ABSENT = {"docker": 3, "podman": 3, "containers": 3, "podman_containers": 3, "docker_images": 3, "podman_images": 3, "confines": 3, "firewall_rules": 3, "gpus": 127, "gpu_processes": 127,
          "gpu_instances": 127, "driver": 127, "cuda": 127, "amd_names": 127, "addresses": 127}  # fmt: skip
"""Exit status of a section where the thing is not there; 1 for those that look at a path, 0 for lists."""
LISTS = {"cdi", "environments", "cluster_files"}
ENDED = {"cached_models", "network_environment"}
"""Lists that say where they end."""


def answer(machine: str, name: str) -> Answer:
    """What one section of a recorded machine answered."""
    file = RECORDED / machine / f"{name}.txt"
    if not file.exists() and name in ENDED:
        return Answer(0, b"end\n", "", whole=True)
    if not file.exists():
        return Answer(0 if name in LISTS else ABSENT.get(name, 1), b"", "", whole=True)
    status, _, error = (
        file.with_suffix(".status").read_text() if file.with_suffix(".status").exists() else "0\n"
    ).partition("\n")
    return Answer(int(status), file.read_bytes(), error, whole=True)


def look(machine: str, **other: Answer) -> Look:
    """A look at a recorded machine; ``other`` sections answer as given."""
    answers = {probe.name: answer(machine, probe.name) for probe in PROBES} | other
    return Look(machine, f"ssh {machine} /bin/sh", WHEN, answers, None, NOW, NOW)


def recorded(machine: str, stated: str = "", **other: Answer) -> Machine:
    """The machine that a look at it gives, over what a cluster file states of it."""
    (node,) = parse_cluster(f"[nodes.{machine}]\n{stated}".encode(), "c.toml").nodes
    return merged(node.machine, machine_facts(look(machine, **other)))
