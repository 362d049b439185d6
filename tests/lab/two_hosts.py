"""The lab: an operator's machine, ``spark-a`` that it reaches, and ``spark-b`` that only ``spark-a`` reaches."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from lab.hosts import USER, Host, missing_programs, ssh_key
from lab.leftovers import PREFIX, Record, remove_cgroups, sweep
from lab.spaces import Space, open_space
from lab.wires import Plug, Wires

PLUGS = (
    Plug("mgmt", "operator", "mgmt0", ("10.77.0.1/24",)),
    Plug("mgmt", "spark-a", "enP7s7", ("10.77.0.2/24",)),
    Plug("fabric", "spark-a", "enp1s0f0np0", ("10.77.1.2/24",), 9000),
    Plug("fabric", "spark-b", "enp1s0f0np0", ("10.77.1.3/24",), 9000),
)
HOSTS = "127.0.0.1 localhost\n127.0.1.1 {name}\n10.77.1.2 spark-a-fabric\n10.77.1.3 spark-b-fabric\n"
SSH_CONFIG = """\
Host spark-a
  HostName 10.77.0.2
Host spark-b
  HostName 10.77.1.3
  ProxyJump spark-a
Host spark-a spark-b
  User {user}
  IdentityFile {folder}/key
  IdentitiesOnly yes
  IdentityAgent none
  UserKnownHostsFile {folder}/known_hosts
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
"""
RUNTIME = "/run/operator"
"""In memory, on the operator's machine: where ssh keeps its sockets, on a path as short as they need it."""
PROGRAMS = (
    "dockerd", "containerd", "runc", "docker", "sshd", "ip", "tc", "ethtool", "unshare", "nsenter", "setpriv",
    "pivot_root", "docker-registry", "busybox",
)  # fmt: skip
PACKAGES = "docker.io openssh-server iproute2 util-linux ethtool docker-registry busybox-static"
REGISTRY = """\
version: 0.1
log: {level: error, accesslog: {disabled: true}}
storage: {filesystem: {rootdirectory: FOLDER}, delete: {enabled: true}}
http: {addr: "0.0.0.0:5000", relativeurls: true}
"""


def problem() -> str | None:
    """Why there can be no lab here; None: there can."""
    if os.getuid() != 0:
        return "namespaces, mounts and dockerd need root"
    if missing := missing_programs(PROGRAMS):
        return f"not installed: {', '.join(missing)} (Debian: {PACKAGES})"
    with tempfile.TemporaryDirectory() as folder:
        # The mount of a host's root: in many containers root may not mount, or an overlay not lie on an overlay.
        script = (
            'cd "$1" && mkdir u w m && mount -t overlay -o "lowerdir=/,upperdir=$1/u,workdir=$1/w" overlay m'
        )
        words = ["unshare", "--net", "--mount", "--pid", "--fork", "--", "sh", "-c", script, "sh", folder]
        tried = subprocess.run(words, capture_output=True, text=True, check=False)
    return (
        f"namespaces with mounts are not allowed here: {tried.stderr.strip()}" if tried.returncode else None
    )


@dataclass
class Lab:
    """Two hosts and an operator. ``heal`` repairs whatever a test did to cables and power."""

    folder: Path
    operator: Space
    wires: Wires
    a: Host
    b: Host
    record: Record
    ssh: Path
    """The operator's ssh settings, as ``~/.ssh`` in there."""
    _registry: bool = field(default=False, repr=False)

    @property
    def hosts(self) -> tuple[Host, Host]:
        """Both."""
        return self.a, self.b

    def spaces(self) -> dict[str, Space]:
        """Whatever is on and has a cable."""
        return {"operator": self.operator, **{host.name: host.space for host in self.hosts if host.on}}

    def canserve(
        self, *words: str, env: Mapping[str, str] | None = None, timeout: float = 120.0
    ) -> subprocess.CompletedProcess[str]:
        """The command, as the operator runs it. A look that hangs raises subprocess.TimeoutExpired."""
        program = Path(sys.executable).with_name("canserve")
        given = {"XDG_RUNTIME_DIR": RUNTIME, **(env or {})}
        return self.operator.run(str(program), *words, check=False, timeout=timeout, env=given)

    def disconnect(self) -> None:
        """End the connections that ssh keeps open, so that the next look begins with a new one."""
        for socket in sorted((Path(f"/proc/{self.operator.pid}/root") / RUNTIME[1:]).glob("canserve-*/*")):
            there = Path(RUNTIME, socket.parent.name, socket.name)
            self.operator.run("ssh", "-O", "exit", "-o", f"ControlPath={there}", "anybody", check=False)

    def delay(self, link: str, milliseconds: float, loss: float = 0.0) -> None:
        """A slow link: see ``Wires.delay``."""
        self.wires.delay(link, milliseconds, self.spaces(), loss)

    def heal(self) -> None:
        """Every host on, every cable whole, every daemon going, no connection left open."""
        for host in self.hosts:
            host.recover()
        self.wires.heal(self.spaces())
        self.disconnect()

    def registry(self) -> str:
        """An image registry on the operator's machine, started once; its address as spark-a takes it."""
        if not self._registry:
            settings = self.folder / "registry.yml"
            settings.write_text(REGISTRY.replace("FOLDER", str(self.folder / "registry")))
            with (self.folder / "registry.log").open("ab") as log:
                self.operator.start(
                    "env", "OTEL_TRACES_EXPORTER=none", "docker-registry", "serve", str(settings), log=log
                )
            asked = "exec 3<>/dev/tcp/127.0.0.1/5000"
            for _ in range(200):
                if self.operator.run("bash", "-c", asked, check=False).returncode == 0:
                    break
                time.sleep(0.05)
            self._registry = True
        return "10.77.0.1:5000"

    def down(self) -> None:
        """Everything ends, nothing is left."""
        for host in self.hosts:
            if host.on:
                host.power_off()
        for space in (self.operator, self.wires.space):
            space.end()
        remove_cgroups(self.record)
        shutil.rmtree(self.folder)


def _host(lab: Path, name: str, authorized: str, cgroup: str, wires: Wires, record: Record) -> Host:
    folder = lab / name
    ssh_key(folder / "host_key", name)
    told = {
        "name": name,
        "folder": str(folder),
        "user": USER,
        "authorized": f"{authorized}\n",
        "hosts": HOSTS.format(name=name),
        "cgroup": cgroup,
        "registries": ["10.77.0.0/16"],
    }

    def opened(space: Space) -> None:
        record.add(space)
        wires.plug_in(name, space)

    return Host(name, folder, told, opened)


def _operator(folder: Path, seen: Mapping[str, str]) -> tuple[Space, Path]:
    home = pwd.getpwuid(os.getuid()).pw_dir
    upper, work, ssh = folder / "home", folder / "work", folder / "home" / ".ssh"
    for each in (upper, work, ssh):
        each.mkdir(mode=0o700)
    told = {"home": home, "upper": str(upper), "work": str(work), "runtime": RUNTIME, "seen": dict(seen)}
    return open_space("operator", "desk", told, folder / "operator.log"), Path(home) / ".ssh"


@contextmanager
def two_hosts(
    hardware: Mapping[str, Path] | None = None, seen: Mapping[str, Path] | None = None
) -> Iterator[Lab]:
    """The lab, up. ``hardware``: by host, a folder of recorded answers that is laid over its root. ``seen``: by path
    below ``/mnt``, a folder of this machine that everybody sees there and nobody can write to.
    """
    sweep()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    record = Record(folder)
    wire = open_space("wires", "wire", {}, folder / "wires.log")
    record.add(wire)
    wires = Wires(wire, PLUGS)
    wires.lay()
    shown = {there: str(here) for there, here in (seen or {}).items()}
    operator, ssh = _operator(folder, shown)
    record.add(operator)
    wires.plug_in("operator", operator)
    authorized = ssh_key(folder / "home/.ssh/key", "operator")
    a, b = (
        _host(folder, name, authorized, record.cgroup(name), wires, record) for name in ("spark-a", "spark-b")
    )
    for host in (a, b):
        host.told["seen"] = shown
        if hardware and host.name in hardware:
            shutil.copytree(hardware[host.name], host.folder / "hardware", symlinks=True)
    lab = Lab(folder, operator, wires, a, b, record, ssh)
    known = {"10.77.0.2": a, "10.77.1.3": b}
    lines = [f"{at} {(host.folder / 'host_key.pub').read_text()}" for at, host in known.items()]
    (folder / "home/.ssh/known_hosts").write_text("".join(lines))
    (folder / "home/.ssh/config").write_text(SSH_CONFIG.format(user=USER, folder=ssh))
    try:
        for host in lab.hosts:
            host.begin()
        for host in lab.hosts:
            host.ready()
        yield lab
    finally:
        lab.down()
