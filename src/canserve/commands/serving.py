"""argv that starts one process of a deployment: in a container, or from an environment in a session of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from canserve.engines import ray
from canserve.subjects.deployment import Deployment, Folder, Image, Mount, Site
from canserve.subjects.launch import Process

RUN_LABEL = "canserve.run"
"""Label of every container of a deployment, with its name: ``docker ps -a --filter label=canserve.run``."""
VARIABLE = "CANSERVE_RUN"
"""In the environment of every process of a deployment that runs in no container: its name, and a full stop, so that
no name is the beginning of another."""
SHARED_MEMORY = "16g"
"""Bound of a container's /dev/shm, not a reservation. A container's own goes with it, whatever kills it."""
_PINS = "CUDA_VISIBLE_DEVICES"
"""Of no use in a container that is given certain accelerators: they are counted from 0 in there."""

_DETACHED = (
    'b=$1; shift; u=$(umask); umask 077; exec </dev/null >"$0/log" 2>&1 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; '
    'umask "$u"; echo $$ >"$0/pid"; chmod 644 "$0/pid"; PATH=$b:$PATH; export PATH; unset LC_ALL; '
    '"$@"; c=$?; umask 022; echo $c >"$0/exit"'
)
"""Whoever may look sees that a process runs and how it ended; what it said, only its own user."""
_WITH_FILES = (
    'n=$1; shift; while [ "$n" -gt 0 ]; do while IFS= read -r l; do case $l in [A-Za-z_]*=*) export "$l";; '
    'esac; done <"$1" || exit; shift; n=$((n - 1)); done; '
)


def container_name(run: str, number: int) -> str:
    """Of a process: ``canserve-4f2a9c1d-0``."""
    return f"canserve-{run}-{number}"


def folder(state: str, run: str, number: int | None = None) -> str:
    """Of a process that runs in no container, or of all of a run: holds its log, and how it ended."""
    return f"{state}/{run}" if number is None else f"{state}/{run}/{number}"


def start(it: Deployment, number: int) -> tuple[str, ...]:
    """Starts a process; returns at once."""
    process = it.processes[number]
    site = it.site(process.host)
    if isinstance(it.where, Image):
        return _container(it, it.where, number, site)
    return _detached(it, it.where, number)


def inside(it: Deployment, number: int, words: Sequence[str]) -> tuple[str, ...]:
    """A command beside a process that runs: in its container, or from the same environment."""
    if isinstance(it.where, Image):
        return (it.where.program, "exec", container_name(it.run, number), *words)
    return (f"{it.where.path}/bin/{words[0]}", *words[1:])


def _container(it: Deployment, image: Image, number: int, site: Site) -> tuple[str, ...]:
    process = it.processes[number]
    program, *words = ray.kept(process.argv)
    labels = {
        RUN_LABEL: it.run,
        "canserve.process": str(number),
        "canserve.ranks": ",".join(map(str, process.ranks)),
        "canserve.machine": site.name,
        "canserve.by": it.operator,
    }
    environment = _environment(it, number)
    environment.pop(_PINS, None)
    return (
        *(image.program, "run", "--detach", "--pull", "never", "--name", container_name(it.run, number)),
        *_each("--label", (f"{name}={value}" for name, value in labels.items())),
        *("--network", "host", *_shared(it, number), "--ulimit", "memlock=-1", "--ulimit", "stack=67108864"),
        *_accelerators(image.program, site),
        *(
            ("--device", "/dev/infiniband", "--cap-add", "IPC_LOCK")
            if site.rdma and len(it.sites) > 1
            else ()
        ),
        *_each("--mount", map(_mount, it.given.mounts)),
        *_each("--env", (f"{name}={value}" for name, value in environment.items())),
        *_each("--env", it.given.secrets),
        *_each("--env-file", it.given.secret_files),
        *("--entrypoint", program, image.name, *words),
    )


def _environment(it: Deployment, number: int) -> dict[str, str]:
    """As the plan says, with what is passed on to everybody, and over Ray with this run's own cluster."""
    process, head = it.processes[number], ray.address(process.argv for process in it.processes)
    found = {**process.environment, **it.given.environment}
    if head is None:
        return found
    if not ray.starts(process.argv):  # else a server takes any cluster that it finds on its machine
        found.setdefault("RAY_ADDRESS", head)
    if isinstance(it.where, Folder):  # else sockets and logs stay in /tmp
        found.setdefault("RAY_TMPDIR", folder(it.state, it.run))
    return found


def _shared(it: Deployment, number: int) -> tuple[str, ...]:
    """What a server has in common with the Ray that runs beside it: memory, processes, and the folder of sockets."""
    beside = beside_of(it.processes, number)
    volume = ("--volume", f"{container_name(it.run, beside)}:/tmp/ray")
    if beside != number:
        name = container_name(it.run, beside)
        return ("--ipc", f"container:{name}", "--pid", f"container:{name}", *volume)
    if any(beside_of(it.processes, other) == number for other in range(len(it.processes)) if other != number):
        return ("--ipc", "shareable", "--shm-size", SHARED_MEMORY, *volume)
    return ("--ipc", "private", "--shm-size", SHARED_MEMORY)


def beside_of(processes: Sequence[Process], number: int) -> int:
    """The process that made its machine part of a cluster, for one that serves over it; else itself."""
    it = processes[number]
    if ray.starts(it.argv):
        return number
    before = (n for n, other in enumerate(processes[:number]) if other.host == it.host)
    return next((n for n in before if ray.starts(processes[n].argv)), number)


def _accelerators(program: str, site: Site) -> tuple[str, ...]:
    if not site.devices:
        return ()
    match site.vendor:
        case "nvidia" if program == "podman":
            return _each("--device", (f"nvidia.com/gpu={device}" for device in site.devices))
        case "nvidia":
            chosen = f"device={','.join(map(str, site.devices))}"
            # docker reads the value as a line of CSV: what holds a comma stands in quotes of its own.
            return ("--gpus", f'"{chosen}"' if "," in chosen else chosen)
        case "amd":
            return ("--device", "/dev/kfd", "--device", "/dev/dri", "--group-add", "video")
        case "intel":
            return ("--device", "/dev/dri")
        case _:
            return ()


def _detached(it: Deployment, where: Folder, number: int) -> tuple[str, ...]:
    process = it.processes[number]
    program, *words = ray.kept(process.argv)
    environment = _environment(it, number)
    files = it.given.secret_files
    read = (_WITH_FILES, str(len(files)), *files) if files else ("",)
    return (
        *("env", f"{VARIABLE}={it.run}.", *(f"{name}={value}" for name, value in environment.items())),
        *("setsid", "--fork", "sh", "-c", read[0] + _DETACHED, folder(it.state, it.run, number), *read[1:]),
        *(f"{where.path}/bin", f"{where.path}/bin/{program}", *words),
    )


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
