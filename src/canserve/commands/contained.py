"""A container that holds one process of a deployment, as a value: for ``docker run`` and for files that say the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from canserve.engines import ray
from canserve.subjects.deployment import Deployment, Folder, Image, Mount, Site
from canserve.subjects.launch import Process

RUN_LABEL = "canserve.run"
"""Label of every container of a deployment, with its name: ``docker ps -a --filter label=canserve.run``."""
SHARED_MEMORY = "16g"
"""Bound of a container's /dev/shm, not a reservation. A container's own goes with it, whatever kills it."""
LIMITS: Mapping[str, int] = {"memlock": -1, "stack": 67108864}
"""Collective libraries lock what they send, and engines nest deeply."""
RDMA = "/dev/infiniband"
_PINS = "CUDA_VISIBLE_DEVICES"
"""Of no use in a container that is given certain accelerators: they are counted from 0 in there."""


@dataclass(frozen=True, slots=True)
class Contained:
    """Everything that a container engine is told of one container. The network is the machine's own."""

    name: str
    image: str
    entrypoint: str
    words: tuple[str, ...]
    labels: Mapping[str, str]
    ipc: str
    """``private``, ``shareable`` or ``container:NAME``."""
    pid: str | None
    """``container:NAME``; None: its own."""
    shm: str | None
    """Bound of /dev/shm; None: another container's is used."""
    volumes: tuple[tuple[str, str], ...]
    """Name and target."""
    gpus: tuple[int, ...]
    """Asked of docker by their index."""
    devices: tuple[str, ...]
    groups: tuple[str, ...]
    rdma: bool
    mounts: tuple[Mount, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    """Names of variables whose values are taken where the container is started."""
    secret_files: tuple[str, ...] = ()


def container_name(run: str, number: int) -> str:
    """Of a process: ``canserve-4f2a9c1d-0``."""
    return f"canserve-{run}-{number}"


def contained(it: Deployment, image: Image, number: int) -> Contained:
    """The container of a process."""
    process = it.processes[number]
    site = it.site(process.host)
    program, *words = ray.kept(process.argv)
    environment = surroundings(it, number)
    environment.pop(_PINS, None)
    ipc, pid, volumes = _shared(it, number)
    gpus, devices, groups = _accelerators(image.program, site)
    return Contained(
        name=container_name(it.run, number),
        image=image.name,
        entrypoint=program,
        words=tuple(words),
        labels={
            RUN_LABEL: it.run,
            "canserve.process": str(number),
            "canserve.ranks": ",".join(map(str, process.ranks)),
            "canserve.machine": site.name,
            "canserve.by": it.operator,
        },
        ipc=ipc,
        pid=pid,
        shm=None if pid else SHARED_MEMORY,
        volumes=volumes,
        gpus=gpus,
        devices=devices,
        groups=groups,
        rdma=site.rdma and len(it.sites) > 1,
        mounts=it.given.mounts,
        environment=environment,
        secrets=it.given.secrets,
        secret_files=it.given.secret_files,
    )


def surroundings(it: Deployment, number: int) -> dict[str, str]:
    """Variables as the plan says, with what is passed on to everybody, and over Ray with this run's own cluster."""
    process, head = it.processes[number], ray.address(process.argv for process in it.processes)
    found = {**process.environment, **it.given.environment}
    if head is None:
        return found
    if not ray.starts(process.argv):  # else a server takes any cluster that it finds on its machine
        found.setdefault("RAY_ADDRESS", head)
    if isinstance(it.where, Folder):  # else sockets and logs stay in /tmp
        found.setdefault("RAY_TMPDIR", f"{it.state}/{it.run}")
    return found


def beside_of(processes: Sequence[Process], number: int) -> int:
    """The process that made its machine part of a cluster, for one that serves over it; else itself."""
    it = processes[number]
    if ray.starts(it.argv):
        return number
    before = (n for n, other in enumerate(processes[:number]) if other.host == it.host)
    return next((n for n in before if ray.starts(processes[n].argv)), number)


def run_words(it: Contained) -> tuple[str, ...]:
    """What follows ``docker run`` and how it is run: ``--name`` up to the last word of the process."""
    return (
        *("--name", it.name, *_each("--label", (f"{name}={value}" for name, value in it.labels.items()))),
        *("--network", "host", "--ipc", it.ipc, *(("--pid", it.pid) if it.pid else ())),
        *(("--shm-size", it.shm) if it.shm else ()),
        *_each("--volume", (f"{name}:{target}" for name, target in it.volumes)),
        *_each("--ulimit", (f"{name}={value}" for name, value in LIMITS.items())),
        *_gpus(it.gpus),
        *_each("--device", it.devices),
        *_each("--group-add", it.groups),
        *(("--device", RDMA, "--cap-add", "IPC_LOCK") if it.rdma else ()),
        *_each("--mount", map(_mount, it.mounts)),
        *_each("--env", (f"{name}={value}" for name, value in it.environment.items())),
        *_each("--env", it.secrets),
        *_each("--env-file", it.secret_files),
        *("--entrypoint", it.entrypoint, it.image, *it.words),
    )


def _shared(it: Deployment, number: int) -> tuple[str, str | None, tuple[tuple[str, str], ...]]:
    """What a server has in common with the Ray that runs beside it: memory, processes, and the folder of sockets."""
    beside = beside_of(it.processes, number)
    name = container_name(it.run, beside)
    volumes = ((name, "/tmp/ray"),)  # noqa: S108 - in the container
    if beside != number:
        return f"container:{name}", f"container:{name}", volumes
    if any(beside_of(it.processes, other) == number for other in range(len(it.processes)) if other != number):
        return "shareable", None, volumes
    return "private", None, ()


def _accelerators(program: str, site: Site) -> tuple[tuple[int, ...], tuple[str, ...], tuple[str, ...]]:
    """By docker's index, as devices, and the groups that may use these."""
    if not site.devices:
        return (), (), ()
    match site.vendor:
        case "nvidia" if program == "podman":
            return (), tuple(f"nvidia.com/gpu={device}" for device in site.devices), ()
        case "nvidia":
            return site.devices, (), ()
        case "amd":
            return (), ("/dev/kfd", "/dev/dri"), ("video",)
        case "intel":
            return (), ("/dev/dri",), ()
        case _:
            return (), (), ()


def _gpus(indices: Sequence[int]) -> tuple[str, ...]:
    if not indices:
        return ()
    chosen = f"device={','.join(map(str, indices))}"
    # docker reads the value as a line of CSV: what holds a comma stands in quotes of its own.
    return ("--gpus", f'"{chosen}"' if "," in chosen else chosen)


def _each(flag: str, values: Iterable[str]) -> tuple[str, ...]:
    return tuple(word for value in values for word in (flag, value))


def _mount(it: Mount) -> str:
    """As container engines take it: a line of CSV. ``--volume`` would make a folder where none is."""
    parts = (
        "type=bind",
        f"source={it.source}",
        f"target={it.target}",
        *(("readonly",) if it.readonly else ()),
    )
    return ",".join(f'"{part}"' if "," in part else part for part in parts)
