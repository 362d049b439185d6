"""Machines as a look would have found them: two DGX Sparks that are fine, and what a test changes of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from canserve.checks.machines import CHECKS
from canserve.facts import Cause, Evidence, Known, Missing
from canserve.rules.machines import profile
from canserve.subjects.cluster import Cluster, Node
from canserve.subjects.host import (
    Accelerator,
    CachedModel,
    Confines,
    Container,
    ContainerEngine,
    Disk,
    Environment,
    GpuProcess,
    HeldImage,
    Interface,
    OwnName,
    RdmaGid,
    RdmaPort,
)
from canserve.subjects.links import Link, Passage
from canserve.subjects.machine import Machine
from canserve.units import Bytes, Capability
from canserve.verdict import Finding, Skipped, Word, word

GIB = 1 << 30
BY_NAME = {check.name: check for check in CHECKS}
ID = "sha256:" + "5c" * 32


def known(value: Any, whole: bool = True) -> Known[Any]:
    return Known(value, (Evidence("box", "a look", "something", whole, "2026-11-30T10:00:00+00:00"),))


def missing(why: str = "it failed", cause: Cause = Cause.UNAVAILABLE, whole: bool = True) -> Missing:
    return Missing(cause, why, (Evidence("box", "a look", "an error", whole),))


def interface(
    name: str = "enp1s0f0np0", address: str = "192.168.100.10/24", *, mtu: int = 9000, up: bool = True
) -> Interface:
    return Interface(name, up, 200000, mtu, (address, "fe80::1/64"), physical=True)


def gid(index: int, ipv4: str | None, kind: str = "RoCE v2") -> RdmaGid:
    words = bytes(map(int, ipv4.split("."))).hex() if ipv4 else ""
    text = f"0000:0000:0000:0000:0000:ffff:{words[:4]}:{words[4:]}" if ipv4 else "fe80:0:0:0:1:2:3:4"
    return RdmaGid(index, text, kind, "enp1s0f0np0")


def port(
    ipv4: str | None = "192.168.100.10", index: int = 3, state: str = "ACTIVE", device: str = "rocep1s0f0"
) -> RdmaPort:
    gids = (gid(0, None, "IB/RoCE v1"), gid(1, None), gid(index, ipv4)) if ipv4 else (gid(1, None),)
    return RdmaPort(device, 1, state, "Ethernet", "200 Gb/sec", gids)


def confines(**changed: Any) -> Confines:
    fine = Confines(ID, True, ("/dev/infiniband",), False, None, True, True)
    return replace(fine, **changed)


def container(**changed: Any) -> Container:
    return Container("docker", "server", "engine:1", "running", "", confines=confines(**changed))


def gpu(held: int = 0, **changed: Any) -> Accelerator:
    processes = (GpuProcess(7, "python", Bytes(held)),) if held else ()
    unified = Accelerator(0, "NVIDIA GB10", "GPU-1", Capability(12, 1), None, None, None, None, (), processes)
    return replace(unified, **changed)


def image(digest: str = ID, name: str = "engine:1") -> HeldImage:
    return HeldImage("docker", digest, (name,), (f"engine@{digest}",), Bytes(GIB), (digest,), "arm64", None)


def environment(**versions: str) -> Environment:
    found = {"torch": "2.9.1", "nvidia_nccl_cu13": "2.28.3"} | versions
    return Environment("/opt/venv", tuple(sorted(found.items())))


def model(revision: str | None = "abc", why: str = "", size: int = GIB) -> CachedModel:
    return CachedModel("Qwen/Qwen3-8B", revision, Bytes(size), not why, why)


def machine(last: int = 10, **facts: Any) -> Machine:
    """A machine whose address ends so. A fact that is given as it is stays so, a value becomes one."""
    address = f"192.168.100.{last}"
    fine = {
        "clock_skew": 0,
        "container_engines": (
            ContainerEngine("docker", "28.3.3", "usable", None, False, "/var/lib/docker", ("nvidia",), ()),
        ),
        "containers": (container(),),
        "accelerators": (gpu(),),
        "interfaces": (
            Interface("lo", True, None, 65536, ("127.0.0.1/8",), physical=False),
            Interface("docker0", True, None, 1500, ("172.17.0.1/16",), physical=False),
            interface(address=f"{address}/24"),
        ),
        "own_name": OwnName(f"spark-{last}", (address,)),
        "firewall": (),
        "firewall_rules": (),
        "rdma": (port(address),),
        "rdma_nodes": ("rdma_cm", "uverbs0"),
        "memlock": None,
        "shared_memory": Disk("shm", "/dev/shm", "/dev/shm", Bytes(60 * GIB), Bytes(60 * GIB)),
        "remove_ipc": False,
        "nccl_conf": None,
        "network_environment": {},
        "environments": (environment(),),
        "images": (image(),),
        "cached_models": (model(),),
    }
    base = profile("dgx-spark")
    assert base is not None
    found: dict[str, Any] = {
        name: value if isinstance(value, Known | Missing) else known(value)
        for name, value in {**fine, **facts}.items()
    }
    return replace(base, **found)


def cluster(
    first: Machine | None = None, second: Machine | None = None, links: Any = None, **stated: Any
) -> Cluster:
    """Two machines; ``stated`` goes to the first one's node."""
    nodes = (
        replace(Node("head", first or machine(10), "spark-1", None, True), **stated),
        Node("second", second or machine(11), "spark-2", "head", False),
    )
    found = Cluster("c.toml", nodes)
    return found if links is None else replace(found, links=links)


def link(source: str = "head", target: str = "second", last: int = 11, **facts: Any) -> Link:
    fine: dict[str, Any] = {
        "reaches": known(True),
        "mtu": known(9000),
        "ports": known({29500: Passage.FREE, 6379: Passage.OPEN}),
    }
    return Link(source, target, f"192.168.100.{last}", **{**fine, **facts})


def links(**facts: Any) -> Known[Any]:
    """Both ways; ``facts`` of the way there."""
    return known((link(**facts), link("second", "head", 10)))


def judged(name: str, of: Cluster) -> Finding | Skipped:
    return BY_NAME[name].judge(of)


def said(name: str, of: Cluster) -> tuple[Word | str, str]:
    """The verdict's word and its reason, or ``skipped`` and why."""
    found = judged(name, of)
    if isinstance(found, Skipped):
        return "skipped", found.because
    return word(found.verdict), found.verdict.because
