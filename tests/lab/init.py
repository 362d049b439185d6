"""Process number 1 of a space: mounts what the space is to see, starts its services, buries the dead.

Run by path, without the project's packages. Says ``ready PID`` on stdout, as the machine counts processes.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any, NoReturn

SSHD = """\
Port 22
HostKey /etc/ssh/lab_host_key
PidFile /run/sshd.pid
AuthorizedKeysFile /etc/ssh/lab_authorized_keys
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
UsePAM no
UseDNS no
PrintMotd no
LogLevel VERBOSE
Subsystem sftp internal-sftp
Include /etc/ssh/lab_further.conf
"""

RUNC = """\
#!/bin/sh
# Notes what docker asked for, takes out what this machine's root may not grant, and runs the real runc.
case " $* " in *" create "*|*" exec "*) python3 -I -S /usr/local/lib/lab/may_not.py "$@";; esac
exec runc "$@"
"""

MAY_NOT = """\
import json, pathlib, sys

def after(flag):
    return pathlib.Path(sys.argv[sys.argv.index(flag) + 1])

if "create" in sys.argv:
    path = after("--bundle") / "config.json"
    spec = json.loads(path.read_text())
    pathlib.Path("/lab/oci", path.parent.name + ".json").write_text(json.dumps(spec))
    process = spec["process"]
else:
    path = after("--process")
    spec = process = json.loads(path.read_text())
bounding = next(line for line in open("/proc/self/status") if line.startswith("CapBnd:"))
if not int(bounding.split()[1], 16) >> 24 & 1:  # CAP_SYS_RESOURCE
    process["rlimits"] = [each for each in process.get("rlimits") or () if each["type"] in ("RLIMIT_CORE", "RLIMIT_STACK")]
    for kind, names in (process.get("capabilities") or {}).items():
        process["capabilities"][kind] = [name for name in names if name != "CAP_SYS_RESOURCE"]
    process["oomScoreAdj"] = max(process.get("oomScoreAdj") or 0, 0)
    path.write_text(json.dumps(spec))
"""

HOOK = """\
#!/bin/sh
# Docker offers --gpus only where a program of this name is. It notes that it was called, and does nothing.
{ echo "hook $*"; env | grep NVIDIA; cat; echo; } >>/lab/gpu-hook.log 2>/dev/null
"""


def mount(*words: object) -> None:
    """``mount``, which must succeed."""
    subprocess.run(["mount", *map(str, words)], check=True)


def write(path: Path, text: str, mode: int = 0o644) -> None:
    """A file with its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def devices(dev: Path) -> None:
    """``/dev`` of its own, with the devices that every program needs and no other."""
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", dev)
    for name in ("null", "zero", "full", "random", "urandom", "tty"):
        os.mknod(dev / name, stat.S_IFCHR | 0o666, Path("/dev", name).stat().st_rdev)
        (dev / name).chmod(0o666)
    for name in ("pts", "shm"):
        (dev / name).mkdir()
    mount("-t", "devpts", "-o", "newinstance,ptmxmode=0666,mode=0620", "devpts", dev / "pts")
    mount("-t", "tmpfs", "-o", "mode=1777", "tmpfs", dev / "shm")
    for name, target in {
        "ptmx": "pts/ptmx",
        "fd": "/proc/self/fd",
        "stdin": "fd/0",
        "stdout": "fd/1",
    }.items():
        (dev / name).symlink_to(target)
    (dev / "stderr").symlink_to("fd/2")


def hardware(root: Path, recorded: Path) -> None:
    """Lay recorded answers over the root: programs are copied, files of the kernel are covered."""
    if (recorded / "sys").is_dir():
        mount("-t", "overlay", "-o", f"ro,lowerdir={recorded}/sys:{root}/sys", "overlay", root / "sys")
    if (recorded / "proc/driver").is_dir():  # nothing can be made in /proc
        mount("-t", "tmpfs", "tmpfs", root / "proc/driver")
        shutil.copytree(recorded / "proc/driver", root / "proc/driver", dirs_exist_ok=True)
    for file in sorted(path for path in recorded.rglob("*") if path.is_file()):
        where = file.relative_to(recorded)
        target = root / where
        if where.parts[0] == "proc" and where.parts[1] != "driver":
            mount("--bind", file, target)
        elif where.parts[0] not in {"sys", "proc"}:
            target.parent.mkdir(parents=True, exist_ok=True)
            real = target.with_name(f"{target.name}.real")
            if target.exists() and not real.exists():
                shutil.copy2(target, real)
            shutil.copy2(file, target)


def show(root: Path, told: dict[str, Any]) -> None:
    """Folders of this machine, for reading."""
    for there, here in told["seen"].items():
        (root / there[1:]).mkdir(parents=True, exist_ok=True)
        mount("--bind", "-o", "ro", here, root / there[1:])


def host_root(told: dict[str, Any]) -> Path:
    """Everything mounted below one folder: this machine's files, where changes go to the host's own disk."""
    home, name = Path(told["folder"]), told["name"]
    root = home / "root"
    for folder in (root, home / "disk/upper", home / "disk/work", home / "docker", home / "share/oci"):
        folder.mkdir(parents=True, exist_ok=True)
    layers = f"lowerdir=/,upperdir={home}/disk/upper,workdir={home}/disk/work"
    mount("-t", "overlay", "-o", layers, "overlay", root)
    mount("-t", "proc", "proc", root / "proc")
    mount("-t", "sysfs", "sysfs", root / "sys")  # mounted in here: its /sys/class/net is the host's own
    for top, mode in (("run", 755), ("tmp", 1777), ("root", 700), ("mnt", 755)):
        mount("-t", "tmpfs", "-o", f"mode={mode}", "tmpfs", root / top)
    devices(root / "dev")
    hardware(root, home / "hardware")
    mount("--rbind", "/sys/fs/cgroup", root / "sys/fs/cgroup")  # a new sysfs has none, and dockerd wants it
    for empty in ("var/lib/docker", "lab"):
        (root / empty).mkdir(parents=True, exist_ok=True)
    mount("--bind", home / "docker", root / "var/lib/docker")  # overlay2 does not nest on overlay
    mount("--bind", home / "share", root / "lab")
    show(root, told)
    write(root / "run/boot_id", f"{uuid.uuid4()}\n")
    mount("--bind", root / "run/boot_id", root / "proc/sys/kernel/random/boot_id")
    if not (home / "machine-id").exists():
        write(home / "machine-id", f"{uuid.uuid4().hex}\n")
    shutil.copy(home / "machine-id", root / "etc/machine-id")
    write(root / "etc/hostname", f"{name}\n")
    write(root / "etc/hosts", told["hosts"])
    write(root / "etc/resolv.conf", "")
    return root


def host_files(root: Path, told: dict[str, Any]) -> None:
    """Configuration of the services; what the host changed on its own disk since its first start stays."""
    home = Path(told["folder"])
    if not (root / "etc/ssh/lab_host_key").exists():
        write(root / "etc/ssh/lab_host_key", (home / "host_key").read_text(), 0o600)
        write(root / "etc/ssh/lab_authorized_keys", told["authorized"])
        write(root / "etc/ssh/lab_further.conf", "")
    write(root / "run/sshd_config", SSHD)
    (root / "run/sshd").mkdir()
    write(root / "usr/local/lib/lab/may_not.py", MAY_NOT)
    write(root / "run/lab/labrunc", RUNC, 0o755)
    write(root / "run/lab/nvidia-container-runtime-hook", HOOK, 0o755)


def pivot(root: Path) -> None:
    """Make it the root, and let go of the old one."""
    os.chdir(root)
    Path(".old").mkdir(exist_ok=True)
    subprocess.run(["pivot_root", ".", ".old"], check=True)
    os.chdir("/")
    subprocess.run(["umount", "-l", "/.old"], check=True)
    Path("/.old").rmdir()


def users(name: str) -> None:
    """A user who may use docker, as on such machines."""
    groups, people = Path("/etc/group").read_text(), Path("/etc/passwd").read_text()
    if "\ndocker:" not in groups:
        subprocess.run(["groupadd", "-r", "docker"], check=True)
    if f"\n{name}:" not in people:
        subprocess.run(["useradd", "-m", "-s", "/bin/bash", "-G", "docker", name], check=True)
        subprocess.run(["usermod", "-p", "*", name], check=True)  # "!" would be locked, for keys as well


def service(name: str, *argv: str) -> None:
    """Started, with what it says kept where the tests find it."""
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/run/lab"
    with Path(f"/lab/{name}.log").open("ab") as log:
        subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            env={"PATH": path, "LANG": "C.UTF-8", "HOME": "/root"},
        )  # fmt: skip


def host(told: dict[str, Any]) -> None:
    """A machine: a root of its own, sshd, dockerd."""
    subprocess.run(["hostname", told["name"]], check=True)
    root = host_root(told)
    host_files(root, told)
    pivot(root)
    users(told["user"])
    service("sshd", "/usr/sbin/sshd", "-D", "-e", "-f", "/run/sshd_config")
    service(
        "dockerd", "dockerd", "--iptables=false", "--ip6tables=false", "--bridge=none", "--ip-forward=false",
        "--add-runtime", "lab=/run/lab/labrunc", "--add-runtime", "nvidia=/run/lab/labrunc", "--default-runtime", "lab",
        "--cgroup-parent", f"/{told['cgroup']}", *(f"--insecure-registry={net}" for net in told["registries"]),
    )  # fmt: skip


def desk(told: dict[str, Any]) -> None:
    """The operator's machine: this machine's files, with ssh settings of its own in the home folder."""
    subprocess.run(["hostname", "operator"], check=True)
    mount("-t", "proc", "proc", "/proc")
    mount("-t", "sysfs", "sysfs", "/sys")
    layers = f"lowerdir={told['home']},upperdir={told['upper']},workdir={told['work']}"
    mount("-t", "overlay", "-o", layers, "overlay", told["home"])
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    Path(told["runtime"]).mkdir(mode=0o700)
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", "/mnt")
    show(Path("/"), told)


def bury() -> NoReturn:
    """Take the exit status of whoever ends, for as long as the space lasts."""
    while True:
        signal.sigwait({signal.SIGCHLD})
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            continue


def main() -> None:
    """By role: ``wire`` mounts nothing, ``desk`` is the operator's, ``host`` a whole machine."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    outside = Path("/proc/self/stat").read_text().split()[0]  # this /proc is still the machine's
    role, told = sys.argv[1], json.loads(sys.argv[2])
    match role:
        case "host":
            host(told)
        case "desk":
            desk(told)
        case _:
            pass
    sys.stdout.write(f"ready {outside}\n")
    sys.stdout.flush()
    bury()


if __name__ == "__main__":
    main()
