"""Two machines as network namespaces that one cable joins, each behind a real sshd; root alone can make them.

An sshd runs for one connection, inside the namespace: ssh starts it as its way there. Nothing listens anywhere.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from loopback import SSHD, key
from loopback import problem as no_sshd


def problem() -> str | None:
    """Why no namespaces can be made here; None: they can."""
    if os.getuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "no ip command here (Debian: iproute2)"
    name = f"cs{secrets.token_hex(3)}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        return f"ip netns add: {made.stderr.strip()}"
    subprocess.run(["ip", "netns", "del", name], check=True)
    return no_sshd()


@dataclass(frozen=True, slots=True)
class Cable:
    """Two machines, ``a`` (10.77.0.1) and ``b`` (10.77.0.2), and the folder whose ``bin/ssh`` reaches them."""

    a: str
    b: str
    folder: Path

    @property
    def path(self) -> str:
        """A PATH on which ssh finds the machines by these names."""
        return f"{self.folder}/bin:{os.environ['PATH']}"

    def run(self, name: str, *words: str) -> None:
        """Run a command inside the namespace of ``a`` or ``b``."""
        space = self.a if name == "a" else self.b
        subprocess.run(["ip", "netns", "exec", space, *words], check=True, capture_output=True)

    def cluster(self, **second: str) -> Path:
        """A cluster file with both, and their addresses; ``second`` changes what it says of ``b``."""
        said = {"address": "b", "ip": "10.77.0.2", "interface": "to-a", **second}
        words = "".join(f'{name} = "{value}"\n' for name, value in said.items())
        file = self.folder / "cluster.toml"
        file.write_text(
            f'[nodes.head]\naddress = "a"\nip = "10.77.0.1"\ninterface = "to-b"\n[nodes.second]\n{words}'
        )
        return file


@contextmanager
def cable(folder: Path, mtu: tuple[int, int] = (9000, 9000)) -> Iterator[Cable]:
    """The two machines while the block lasts."""
    tag = secrets.token_hex(3)
    two = Cable(f"cs{tag}a", f"cs{tag}b", folder)
    try:
        for space in (two.a, two.b):
            subprocess.run(["ip", "netns", "add", space], check=True)
        subprocess.run(
            ["ip", "link", "add", "to-b", "netns", two.a, "type", "veth", "peer", "to-a", "netns", two.b],
            check=True,
        )
        for space, device, last, size in ((two.a, "to-b", 1, mtu[0]), (two.b, "to-a", 2, mtu[1])):
            for words in (
                ["addr", "add", f"10.77.0.{last}/24", "dev", device],
                ["link", "set", device, "mtu", str(size), "up"],
                ["link", "set", "lo", "up"],
            ):
                subprocess.run(["ip", "-n", space, *words], check=True)
        for space, device in ((two.a, "to-b"), (two.b, "to-a")):
            _carries(space, device)
        _ssh(two)
        yield two
    finally:
        for space in (two.a, two.b):
            subprocess.run(["ip", "netns", "del", space], check=False, capture_output=True)


def _carries(space: str, device: str) -> None:
    """Wait until the kernel says so: an interface is told to go up before it is."""
    for _ in range(100):
        told = subprocess.run(
            ["ip", "-n", space, "-o", "link", "show", device], capture_output=True, text=True, check=True
        )
        if "state UP" in told.stdout:
            return
        time.sleep(0.05)
    raise AssertionError(f"{device} did not come up: {told.stdout}")


def _ssh(two: Cable) -> None:
    folder = two.folder
    folder.mkdir(parents=True, exist_ok=True)
    host, user = key(folder / "host_key"), key(folder / "key")
    (folder / "known_hosts").write_text(f"box {host}\n")
    (folder / "authorized_keys").write_text(f"{user}\n")
    (folder / "sshd_config").write_text(
        f"HostKey {folder}/host_key\nPidFile none\nAuthorizedKeysFile {folder}/authorized_keys\nStrictModes no\n"
        "UsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\nPrintMotd no\nUseDNS no\n"
    )
    ways = "".join(
        f"Host {name}\n  ProxyCommand ip netns exec {space} {SSHD} -i -f {folder}/sshd_config\n"
        for name, space in (("a", two.a), ("b", two.b))
    )
    (folder / "config").write_text(
        f"{ways}Host *\n  IdentityFile {folder}/key\n  IdentitiesOnly yes\n  IdentityAgent none\n"
        f"  UserKnownHostsFile {folder}/known_hosts\n  GlobalKnownHostsFile /dev/null\n  HostKeyAlias box\n"
        "  StrictHostKeyChecking yes\n"
        # Short, as sockets have it. A connection that were kept open would lead to the namespaces of the test before.
        f"  ControlMaster no\n  ControlPath /tmp/{two.a}-%C\n"
    )
    tool = folder / "bin" / "ssh"
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {folder}/config "$@"\n')
    tool.chmod(0o755)
