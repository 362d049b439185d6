"""What a lab leaves behind when its process was killed, found again and removed.

Everything of a lab ends with the process that made it: the kernel sees to that. What stays are folders and empty
control groups; and should a process have stayed, it is known by its number *and* its network namespace, which no
stranger's process has. Nothing is ever looked for by name.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from lab.spaces import Space, born, gone, network_of

if TYPE_CHECKING:
    from lab.hosts import Host

PREFIX = "canserve-lab-"
"""Of a lab's folder, in the folder for temporary files."""
_RECORD = "lab.json"


@dataclass
class Record:
    """A file in the lab's folder: who made it, and what was started."""

    folder: Path
    owner: tuple[int, str | None] = field(default_factory=lambda: (os.getpid(), born(os.getpid())))
    spaces: list[tuple[int, str]] = field(default_factory=list)
    """Each process number 1 with its network namespace."""
    cgroups: list[str] = field(default_factory=list)

    def add(self, space: Space) -> None:
        """A space that was opened; written down at once."""
        if (network := network_of(space.pid)) is not None:
            self.spaces.append((space.pid, network))
        self._write()

    def cgroup(self, host: str) -> str:
        """A name for the control group of a host's containers, which is written down before it is used."""
        name = f"{self.folder.name}-{host}"
        self.cgroups.append(name)
        self._write()
        return name

    def _write(self) -> None:
        told = {"owner": self.owner, "spaces": self.spaces, "cgroups": self.cgroups}
        new = self.folder / f"{_RECORD}.new"
        new.write_text(json.dumps(told))
        new.replace(self.folder / _RECORD)

    @staticmethod
    def read(folder: Path) -> Record | None:
        """As it was written; None: there is none, or not by this user."""
        try:
            if folder.stat().st_uid != os.getuid() or folder.is_symlink():
                return None
            told = json.loads((folder / _RECORD).read_text())
        except (OSError, ValueError):
            return None
        pid, began = told["owner"]
        spaces = [(int(number), str(network)) for number, network in told["spaces"]]
        return Record(folder, (int(pid), began), spaces, [str(name) for name in told["cgroups"]])

    @property
    def orphaned(self) -> bool:
        """Whether the process that made it has ended."""
        pid, began = self.owner
        return born(pid) != began


def sweep() -> list[Path]:
    """Remove what labs of dead processes left; their folders."""
    swept = []
    for folder in sorted(Path(tempfile.gettempdir()).glob(f"{PREFIX}*")):
        record = Record.read(folder)
        if record is None or not record.orphaned:
            continue
        end_spaces(record)
        remove_cgroups(record)
        with suppress(FileNotFoundError):  # another test process sweeps as well
            shutil.rmtree(folder)
        swept.append(folder)
    return swept


def end_spaces(record: Record) -> None:
    """Kill those of its processes that still are what was written down, and not in this process's own network."""
    for pid, network in record.spaces:
        if network_of(pid) == network != network_of(os.getpid()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            gone(pid)


def remove_cgroups(record: Record) -> None:
    """Control groups outlive what was in them."""
    for name in record.cgroups:
        tops = [Path("/sys/fs/cgroup", name), *Path("/sys/fs/cgroup").glob(f"*/{name}")]
        for top in tops:
            folders = [path for path in top.rglob("*") if path.is_dir()] if top.is_dir() else []
            for folder in [*sorted(folders, reverse=True), top]:
                with suppress(OSError):
                    folder.rmdir()


def traces(record: Record) -> list[str]:
    """What there still is of a lab: processes in its namespaces, mounts, links, control groups, its folder."""
    networks = {network for _, network in record.spaces}
    processes = list(Path("/proc").glob("[0-9]*"))
    found = [
        f"process {entry.name}: {_command(entry)}"
        for entry in processes
        if network_of(int(entry.name)) in networks and born(int(entry.name)) is not None
    ]
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    found += [f"mount {line}" for line in mounts if record.folder.name in line]
    found += [f"link {link.name}" for link in Path("/sys/class/net").iterdir() if _of_a_lab(link.name)]
    for name in record.cgroups:
        found += [f"control group {path}" for path in Path("/sys/fs/cgroup").glob(f"*/{name}")]
    return found + ([f"folder {record.folder}"] if record.folder.exists() else [])


def _of_a_lab(link: str) -> bool:
    return link.startswith(("mgmt", "fabric", "enP7s7", "enp1s0f0np0"))


def _command(entry: Path) -> str:
    try:
        return (entry / "cmdline").read_text().replace("\0", " ")[:200]
    except OSError:
        return "?"


QUIET = frozenset({"sshd", "sh", "grep", "cat", "docker", "runc", "sleep", "timeout"})
"""Processes that come and go with looks at a host, or with connections that are kept open."""
_THERE = r"""docker ps -a --format 'container {{.Names}} of {{.Image}}'
docker volume ls -q | sed 's/^/volume /'
ls -A /dev/shm | sed 's/^/shared memory /'
ls -d /var/tmp/canserve/* 2>/dev/null | grep -v /audit- | sed 's/^/kept /'
find ~spark/.cache/canserve /tmp /var/tmp -name '*.part' -o -name '.canserve-incoming' 2>/dev/null | sed 's/^/half a file /'
sed -n 's/^ *[0-9]*: [0-9A-F]*:\([0-9A-F]*\) [0-9A-F]*:0000 0A.*/listens on \1/p' /proc/net/tcp /proc/net/tcp6
:"""


def there(host: Host) -> Counter[str]:
    """What is on a host: processes, containers, volumes, shared memory, claims, half files, ports that listen."""
    found = Counter(host.run("sh", "-c", _THERE).stdout.splitlines())
    found.update(f"process {name}" for name in host.processes().values() if name not in QUIET)
    return found
