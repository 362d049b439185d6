"""container-engine-usable: this user may run containers there, and they can have the accelerators."""

from __future__ import annotations

from dataclasses import replace

from canserve.checks.machines.question import ClusterCheck, each
from canserve.checks.reader import NotApplicable, Reader
from canserve.subjects.cluster import Cluster, Node
from canserve.subjects.host import ContainerEngine
from canserve.verdict import No, Unknown, Verdict, Yes

FIXES = {
    "permission denied": "let this user use {0}: its group ({0}), or a rootless {0}",
    "down": "start the daemon of {0}",
}


def _usable(reader: Reader, node: Node) -> Verdict:
    engines = reader.read(node.machine.container_engines)
    if not engines:
        raise NotApplicable("no container engine is installed")
    usable = [engine for engine in engines if engine.state == "usable"]
    if usable:
        return _with_accelerators(reader, node, usable)
    # One that may do and was not asked, or did not answer, leaves it open whatever the others said.
    untold = [engine for engine in engines if engine.state not in FIXES]
    said = "; ".join(f"{one.name}: {one.state}" + (f" ({one.why})" if one.why else "") for one in engines)
    if untold:
        return Unknown(said, f"try there: {untold[0].name} info")
    return No(said, ", or ".join(FIXES[one.state].format(one.name) for one in engines))


def _with_accelerators(reader: Reader, node: Node, usable: list[ContainerEngine]) -> Verdict:
    """Whether it was told of the accelerators; a hook that needs no registration shows nowhere."""
    names = " and ".join(f"{engine.name} {engine.version or ''}".strip() for engine in usable)
    vendor = reader.try_read(node.machine.vendor)
    if vendor != "nvidia":
        return Yes(f"{names} answers this user")
    for engine in usable:
        if "nvidia" in engine.runtimes or any("nvidia" in device for device in engine.devices):
            return Yes(f"{engine.name} {engine.version or ''} answers this user and knows the accelerators")
    held = reader.try_read(node.machine.containers) or ()
    if any(each.confines is not None and each.confines.accelerators for each in held):
        return Yes(f"{names} answers this user, and a container with accelerators runs")
    return Unknown(
        f"{names} answers this user, but neither a runtime nor a CDI device says that its containers get accelerators",
        "install nvidia-container-toolkit, or try: docker run --rm --gpus all IMAGE nvidia-smi",
    )


def needed(reader: Reader, cluster: Cluster) -> Verdict:
    """The same for a build that is an image: where no engine is, it cannot run."""
    return each(reader, cluster.nodes, _needed)


def _needed(reader: Reader, node: Node) -> Verdict:
    if reader.read(node.machine.container_engines):
        return _usable(reader, node)
    return No(
        "no container engine is installed, and the build is an image",
        f"install docker or podman on {node.name}",
    )


def usable(reader: Reader, cluster: Cluster) -> Verdict:
    """The verdict of ``container-engine-usable``."""
    return each(reader, cluster.nodes, _usable)


CONTAINER_ENGINE = ClusterCheck(
    "container-engine-usable",
    "A container engine answers this user and gives containers the accelerators; judged where one is installed, "
    "or the build is an image.",
    usable,
)
FOR_IMAGES = replace(CONTAINER_ENGINE, run=needed)
