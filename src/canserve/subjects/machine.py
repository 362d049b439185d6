"""A machine: what a profile or a cluster file says of it, and what was read on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from canserve.facts import Cause, Fact, Known, Missing
from canserve.subjects.host import (
    Accelerator,
    CachedModel,
    Container,
    ContainerEngine,
    Disk,
    Environment,
    HeldImage,
    HostMemory,
    Interface,
    Listener,
    OwnName,
    RdmaPort,
)
from canserve.units import Bytes, Capability, Compute, Rate

NOT_LOOKED = Missing(
    Cause.UNREACHED,
    "only a look at a machine says it",
    ask="name the machine itself: local, or its ssh destination",
)
"""What only a look at a machine can say, where none was taken."""


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine. A fact without a source is Missing, not a guess."""

    subject: str
    """``profile:dgx-spark``, a host of a cluster file."""
    vendor: Fact[str]
    """``nvidia``, ``amd``, ``intel``, ``google``, ``huawei``."""
    gpu: Fact[str]
    """Marketing name of the accelerator."""
    capability: Fact[Capability | None]
    """CUDA compute capability; ``Known(None)`` for accelerators that have none."""
    arch_name: Fact[str]
    """``sm_121``, ``gfx942`` ..."""
    gpus: Fact[int]
    memory: Fact[Bytes]
    """Of one accelerator, nominal."""
    visible_memory: Fact[Bytes]
    """Of one accelerator, as CUDA or HIP reports it (``cudaMemGetInfo``): less than the nominal figure."""
    unified_memory: Fact[bool]
    bandwidth: Fact[Rate]
    compute: Fact[Compute]
    """Peak of dense matrix products, of one accelerator."""
    cpu_arch: Fact[str]
    """``x86_64`` or ``aarch64``."""
    disk: Fact[Bytes]
    """Free for images and weights."""
    driver: Fact[str]
    """NVIDIA driver version, ``580.95.05``."""
    cuda: Fact[str]
    """Highest CUDA version that the driver serves, ``13.0``."""
    libc: Fact[str]
    fp8: Fact[bool]
    fp4: Fact[bool]
    intra_node: Fact[str]
    """How its accelerators reach each other, with the rate where it is known: ``NVLink, 450 GB/s each way``."""
    inter_node: Fact[str]
    """How it reaches other machines: ``RoCE, 25 GB/s each way``."""
    reported_memory: Fact[Bytes] = NOT_LOOKED
    """Of one accelerator, as the driver's own tool prints it (``nvidia-smi``): a little more than CUDA gives."""
    accelerators: Fact[tuple[Accelerator, ...]] = NOT_LOOKED
    host_memory: Fact[HostMemory] = NOT_LOOKED
    rocm: Fact[str | None] = NOT_LOOKED
    """Installed ROCm release; None: none."""
    kernel: Fact[str] = NOT_LOOKED
    system: Fact[str] = NOT_LOOKED
    """The distribution's own name for itself."""
    disks: Fact[tuple[Disk, ...]] = NOT_LOOKED
    container_engines: Fact[tuple[ContainerEngine, ...]] = NOT_LOOKED
    containers: Fact[tuple[Container, ...]] = NOT_LOOKED
    """Running ones."""
    images: Fact[tuple[HeldImage, ...]] = NOT_LOOKED
    """That container engines hold."""
    environments: Fact[tuple[Environment, ...]] = NOT_LOOKED
    cached_models: Fact[tuple[CachedModel, ...]] = NOT_LOOKED
    """In the Hub cache, and folders of weights in the usual places."""
    interfaces: Fact[tuple[Interface, ...]] = NOT_LOOKED
    rdma: Fact[tuple[RdmaPort, ...]] = NOT_LOOKED
    rdma_nodes: Fact[tuple[str, ...]] = NOT_LOOKED
    """Files of ``/dev/infiniband``: a container needs them for RDMA."""
    memlock: Fact[Bytes | None] = NOT_LOOKED
    """How much memory a process of this login may lock; None: without limit."""
    shared_memory: Fact[Disk | None] = NOT_LOOKED
    """``/dev/shm``."""
    own_name: Fact[OwnName] = NOT_LOOKED
    listening: Fact[tuple[Listener, ...]] = NOT_LOOKED
    """TCP ports that are taken."""
    firewall: Fact[tuple[str, ...]] = NOT_LOOKED
    """Firewalls that are switched on, as far as that can be told without privileges."""
    firewall_rules: Fact[tuple[str, ...]] = NOT_LOOKED
    """Rules of the kernel's packet filter that turn packets away which come in; only privileged users see them."""
    remove_ipc: Fact[bool | None] = NOT_LOOKED
    """Whether logging out removes this user's shared memory; None: no systemd-logind."""
    nccl_conf: Fact[Mapping[str, str] | None] = NOT_LOOKED
    """Settings of ``/etc/nccl.conf`` and ``~/.nccl.conf``; None: neither is there."""
    network_environment: Fact[Mapping[str, str]] = NOT_LOOKED
    """Variables of collective libraries that every login gets: ``NCCL_*``, ``GLOO_SOCKET_IFNAME`` ..."""
    clock_skew: Fact[int] = NOT_LOOKED
    """Seconds by which its clock is ahead of this machine's."""
    cluster_files: Fact[tuple[str, ...]] = NOT_LOOKED
    """Scripts and settings of clusters that lie on it; none is ever run."""

    def __hash__(self) -> int:
        """By its name: some of what is read of a machine are mappings, which have no hash of their own."""
        return hash(self.subject)

    @property
    def reached(self) -> bool:
        """Whether it was looked at, or is known from a file alone; False: it could not be looked at."""
        # The first question of every look, which every machine that runs a script can answer.
        return self.clock_skew is NOT_LOOKED or isinstance(self.clock_skew, Known)

    @property
    def unseen(self) -> str | None:
        """Why it could not be looked at, in a line; None: it was, or there was no need."""
        fact = self.clock_skew
        if self.reached or not isinstance(fact, Missing):
            return None
        return f"{fact.why}; what was said of it before is taken"
