"""What a look at a machine finds on it: records that no profile states."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from canserve.units import Bytes, Capability


class Told:
    """A record that is told in one line of its own."""

    __slots__ = ()


Usable = Literal["usable", "permission denied", "down", "not answering", "unknown"]


@dataclass(frozen=True, slots=True)
class GpuProcess(Told):
    """A process that holds memory of an accelerator."""

    pid: int
    name: str
    memory: Bytes | None
    """None: the driver does not say it."""

    def __str__(self) -> str:
        return f"{self.name} (pid {self.pid}, {self.memory or 'memory not told'})"


@dataclass(frozen=True, slots=True)
class Accelerator(Told):
    """One accelerator, as its driver's own tools or files describe it now."""

    index: int
    name: str | None
    uuid: str | None
    capability: Capability | None
    arch_name: str | None
    """``gfx942``; None for those that have a compute capability."""
    total: Bytes | None
    """As the driver reports it; None: it has no memory of its own, or the driver does not say it."""
    free: Bytes | None
    """Now."""
    mig: bool | None
    """Whether it is split into instances or partitions; None: it cannot be."""
    instances: tuple[str, ...] = ()
    """Of a split one: ``1g.10gb``, or how it is partitioned: ``CPX``."""
    processes: tuple[GpuProcess, ...] | None = None
    """None: not told."""
    pci: str | None = None
    """Where it sits: ``0000:18:00.0``; None: not told."""
    node: int | None = None
    """NUMA node: RDMA devices of the same are its rail; None: the machine has one, or does not say it."""

    def __str__(self) -> str:
        of = "no memory of its own told" if self.total is None else f"{self.free or '?'} of {self.total} free"
        kind = f", {self.capability or self.arch_name}" if self.capability or self.arch_name else ""
        parts = f", split: {', '.join(self.instances) or 'no instance'}" if self.mig else ""
        held = f", held by {', '.join(map(str, self.processes))}" if self.processes else ""
        place = f", PCI {self.pci}" if self.pci else ""
        place += f", NUMA node {self.node}" if self.node is not None else ""
        return f"{self.index}: {self.name or 'no name told'}{kind}, {of}{parts}{place}{held}"


@dataclass(frozen=True, slots=True)
class HostMemory:
    """The system's memory now, as the kernel counts it."""

    total: Bytes
    free: Bytes
    available: Bytes | None
    """Free, and what the kernel would give up for it."""
    cached: Bytes | None
    swap_total: Bytes | None
    swap_free: Bytes | None
    cma_total: Bytes | None
    """Memory that is kept in one piece for devices; None: the kernel has none."""
    cma_free: Bytes | None


@dataclass(frozen=True, slots=True)
class Disk(Told):
    """The file system under a folder that matters."""

    use: str
    """``docker``, ``podman``, ``hub`` (weights of the Hub), ``home``."""
    path: str
    """The folder; where it does not exist yet, the nearest one that does."""
    mount: str
    total: Bytes
    free: Bytes
    """For this user."""

    def __str__(self) -> str:
        return f"{self.use}: {self.path}, {self.free} of {self.total} free"


@dataclass(frozen=True, slots=True)
class ContainerEngine(Told):
    """A container engine, and whether this user may use it."""

    name: str
    version: str | None
    state: Usable
    why: str | None
    """What it said, where it is not usable."""
    rootless: bool | None
    root: str | None
    """Folder of its images."""
    runtimes: tuple[str, ...]
    devices: tuple[str, ...]
    """CDI devices it knows, or the CDI specifications that lie on the machine."""

    def __str__(self) -> str:
        words = [self.name, self.version, "rootless" if self.rootless else None, self.state]
        said = " ".join(word for word in words if word)
        more = (
            ("", self.why),
            ("runtimes ", ", ".join(self.runtimes)),
            ("devices ", ", ".join(self.devices)),
        )
        return "; ".join([said, *(f"{name}{value}" for name, value in more if value)])


@dataclass(frozen=True, slots=True)
class Confines:
    """What a container may use of its machine, as it was started."""

    image: str | None
    """Digest of its image, ``sha256:...``, as ``HeldImage`` has it."""
    accelerators: bool
    """Whether it asked for accelerators, or may use every device."""
    devices: tuple[str, ...]
    """Of the machine, as they were given to it: ``/dev/infiniband``."""
    privileged: bool
    shared_memory: Bytes | None
    """Its own ``/dev/shm``; None: that of the machine, or of another container."""
    host_network: bool
    locks: Bytes | bool
    """How much memory its processes may lock; True: any; False: its settings do not say it."""


@dataclass(frozen=True, slots=True)
class Container(Told):
    """A running container."""

    engine: str
    name: str
    image: str
    state: str
    ports: str
    confines: Confines | None = field(default=None, kw_only=True)
    """None: not told."""

    def __str__(self) -> str:
        ports = f", {self.ports}" if self.ports else ""
        return f"{self.name}: {self.image} ({self.engine}, {self.state}){ports}"


@dataclass(frozen=True, slots=True)
class HeldImage(Told):
    """An image that a container engine holds."""

    engine: str
    digest: str
    """The engine's own identifier of it, ``sha256:...``: equal means the same image."""
    names: tuple[str, ...]
    """``repository:tag``; empty: it has none."""
    repository_digests: tuple[str, ...]
    """``repository@sha256:...`` of the registries it came from."""
    size: Bytes | None
    """Unpacked; None: the engine does not say it."""
    layers: tuple[str, ...] | None
    """Digests of its unpacked layers, the lowest first; None: not told."""
    architecture: str | None
    """As images name it: ``arm64``."""
    created: str | None
    """ISO 8601."""

    @property
    def name(self) -> str:
        """The first of its names, else its digest."""
        return next(iter(self.names), self.digest)

    def __str__(self) -> str:
        names = ", ".join(self.names) or self.digest[:19]
        parts = [self.engine, self.architecture, str(self.size) if self.size is not None else None]
        return f"{names} ({', '.join(part for part in parts if part)})"


@dataclass(frozen=True, slots=True)
class Environment(Told):
    """A folder of Python packages that holds an engine, or what engines stand on."""

    path: str
    packages: tuple[tuple[str, str], ...]
    """Name and version, from the names of metadata folders."""

    def __str__(self) -> str:
        return f"{self.path}: {', '.join(f'{name} {version}' for name, version in self.packages)}"


@dataclass(frozen=True, slots=True)
class CachedModel(Told):
    """A repository in the Hub cache, or a folder of weights."""

    name: str
    """The repository's, or the folder's path."""
    revision: str | None
    """Of a repository: the snapshot that was looked at."""
    bytes: Bytes | None
    complete: bool
    why: str
    """What is missing; empty: nothing."""

    def __str__(self) -> str:
        size = f", {self.bytes}" if self.bytes is not None else ""
        return f"{self.name}: {self.why or 'complete'}{size}"


@dataclass(frozen=True, slots=True)
class Interface(Told):
    """A network interface."""

    name: str
    up: bool
    speed: int | None
    """Megabits a second; None: it does not say."""
    mtu: int | None
    addresses: tuple[str, ...] | None
    """With prefix length; None: not told."""
    physical: bool

    def __str__(self) -> str:
        words = ["up" if self.up else "down"]
        words += [f"{self.speed} Mb/s"] if self.speed is not None else []
        words += [f"MTU {self.mtu}"] if self.mtu is not None else []
        return f"{self.name}: {', '.join([*words, *(self.addresses or ())])}"


@dataclass(frozen=True, slots=True)
class RdmaGid:
    """One address of an RDMA port."""

    index: int
    gid: str
    kind: str
    """``RoCE v2``, ``IB/RoCE v1``."""
    interface: str | None

    @property
    def ipv4(self) -> str | None:
        """The IPv4 address that it stands for, which other networks route; None: it is another kind of address.

        >>> RdmaGid(3, "0000:0000:0000:0000:0000:ffff:c0a8:640a", "RoCE v2", None).ipv4
        '192.168.100.10'
        """
        words = self.gid.lower().split(":")
        if len(words) != 8 or words[:6] != ["0000"] * 5 + ["ffff"]:
            return None
        try:
            value = bytes.fromhex(words[6] + words[7])
        except ValueError:
            return None
        return ".".join(map(str, value)) if len(value) == 4 else None


@dataclass(frozen=True, slots=True)
class RdmaPort(Told):
    """A port of an RDMA device."""

    device: str
    port: int
    state: str
    """``ACTIVE``."""
    link_layer: str
    """``Ethernet`` or ``InfiniBand``."""
    rate: str
    gids: tuple[RdmaGid, ...]
    pci: str | None = None
    """Where its device sits: ``0000:01:00.0``. One cable may be two devices, each with half of the lanes."""
    node: int | None = None
    """NUMA node of its device: accelerators of the same are its rail; None: the machine has one, or does not say it."""

    def __str__(self) -> str:
        used = sorted({gid.interface for gid in self.gids if gid.interface})
        over = f" over {', '.join(used)}" if used else ""
        second = [
            f"{gid.index} ({gid.ipv4})" if gid.ipv4 else str(gid.index)
            for gid in self.gids
            if "v2" in gid.kind
        ]
        parts = [self.state, f"{self.link_layer}{over}", self.rate]
        parts += [f"PCI {self.pci}"] if self.pci else []
        parts += [f"NUMA node {self.node}"] if self.node is not None else []
        parts += [f"RoCE v2 at GID {', '.join(second)}"] if second else []
        return f"{self.device} port {self.port}: {', '.join(parts)}"


@dataclass(frozen=True, slots=True)
class Listener(Told):
    """A TCP port on which something listens."""

    port: int
    address: str
    """``0.0.0.0`` and ``::``: every address of the machine."""

    def __str__(self) -> str:
        return f"{self.address}:{self.port}" if ":" not in self.address else f"[{self.address}]:{self.port}"


@dataclass(frozen=True, slots=True)
class OwnName(Told):
    """The machine's name, and the addresses it stands for on the machine itself."""

    name: str
    addresses: tuple[str, ...]
    """A process that advertises 127.0.1.1 is not found from elsewhere."""

    def __str__(self) -> str:
        return f"{self.name}: {', '.join(self.addresses) or 'no address'}"
