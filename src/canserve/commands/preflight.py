"""What starts a preflight on a machine: its own shell, and the Python of an environment or of an image."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LABEL = "canserve=preflight"
"""Of the containers that are started: ``docker ps --filter label=canserve=preflight`` lists them."""


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment, or any folder with ``bin/python3``."""

    path: str

    def __str__(self) -> str:
        return self.path


@dataclass(frozen=True, slots=True)
class Image:
    """An image that a container engine of the machine holds; nothing is ever fetched."""

    program: str
    """``docker`` or ``podman``."""
    name: str

    def __str__(self) -> str:
        return f"{self.program}://{self.name}"


Place = Environment | Image


@dataclass(frozen=True, slots=True)
class Start:
    """One start on one machine."""

    place: Place
    name: str
    """Of the container, unique."""
    gpus: bool
    rdma: bool
    environment: Mapping[str, str]


def container(it: Start, image: Image) -> tuple[str, ...]:
    """The container, with what ranks of a deployment are given: the host's network, its GPUs, RDMA. It removes itself."""
    cuda = ("--gpus", "all") if image.program == "docker" else ("--device", "nvidia.com/gpu=all")
    return (
        *(image.program, "run", "--rm", "--interactive", "--pull", "never", "--name", it.name),
        *("--label", LABEL, "--network", "host", "--ipc", "host", "--workdir", "/"),
        *(cuda if it.gpus else ()),
        *(
            ("--device", "/dev/infiniband", "--cap-add", "IPC_LOCK", "--ulimit", "memlock=-1")
            if it.rdma
            else ()
        ),
        *(word for name, value in it.environment.items() for word in ("--env", f"{name}={value}")),
        *("--entrypoint", "python3", "--", image.name),
    )


def script(it: Start, program: str, task: Mapping[str, Any]) -> str:
    """Commands of a POSIX shell. Whatever becomes of them, nothing of it lasts.

    The program's input is a sign of life a second, which ends with the connection (descriptor 9), with this shell, and
    with the loop; without it the program ends, and with it its ranks. Beside that it has an end of its own.
    """
    beats = int(task["limits"]["whole"]) + 15  # after so many seconds the signs of life end by themselves
    words = ["-u", "-c", '"$PROGRAM"', '"$TASK"']
    if isinstance(it.place, Image):
        ending = f"{it.place.program} rm --force -- {shlex.quote(it.name)} >/dev/null 2>&1"
        start = [shlex.join(container(it, it.place)), *words]
    else:
        ending = 'rm -rf -- "$TMPDIR"'
        settings = (f"{name}={shlex.quote(value)}" for name, value in it.environment.items())
        start = [*settings, shlex.quote(f"{it.place.path.rstrip('/')}/bin/python3"), *words]
    own = "TMPDIR=$(mktemp -d) || exit 1; export TMPDIR\n" if isinstance(it.place, Environment) else ""
    return (
        f"PROGRAM={shlex.quote(program)}\nTASK={shlex.quote(json.dumps(task))}\n{own}"
        f"trap {shlex.quote(ending)} EXIT; trap 'exit 1' HUP INT TERM PIPE\n"
        f"{{ n=0; while [ $n -lt {beats} ] && printf '\\0' >&9 && printf .; do n=$((n+1)); sleep 1; done; }} "
        "2>/dev/null | "
        f"{' '.join(start)} 9>&-\n"
        "rc=$?; exit $rc"
    )
