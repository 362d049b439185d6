"""Hardware that is not there: recorded answers, laid over a host's own files, and marked as such on the host.

What a test reads of a GPU on these hosts proves that canserve understands the recorded form, never that a driver
prints it. Everything else of them (processes, cables, sshd, dockerd, disks) is real.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from canserve.probes.host.driver import CUDA
from canserve.probes.host.gpus import GPUS, INSTANCES, PROCESSES

RECORDED = Path(__file__).parent.parent / "probes/host/recorded"
MARK = "etc/canserve-lab/SIMULATED"
MARKED = "Hardware of this host is recorded output: nvidia-smi, uname, getconf, /proc/meminfo, parts of /sys and /dev.\n"
_TOOLS: Mapping[str, str] = {
    GPUS.how: "gpus", PROCESSES.how: "gpu_processes", INSTANCES.how: "gpu_instances", CUDA.how: "cuda"
}  # fmt: skip
"""Command -> the recorded section that holds what it prints."""


@dataclass(frozen=True, slots=True)
class Port:
    """One RDMA port, as the kernel shows it."""

    device: str
    interface: str
    address: str
    """IPv4 address of the interface: index 3 of the port's table is RoCE v2 over it."""

    def files(self) -> dict[str, str]:
        """Below ``/sys``."""
        top = f"sys/class/infiniband/{self.device}/ports/1"
        mapped = "".join(f"{int(part):02x}" for part in self.address.split("."))
        gids = {
            0: ("fe80:0000:0000:0000:4ebb:47ff:fe00:0001", "IB/RoCE v1"),
            1: ("fe80:0000:0000:0000:4ebb:47ff:fe00:0001", "RoCE v2"),
            2: (f"0000:0000:0000:0000:0000:ffff:{mapped[:4]}:{mapped[4:]}", "IB/RoCE v1"),
            3: (f"0000:0000:0000:0000:0000:ffff:{mapped[:4]}:{mapped[4:]}", "RoCE v2"),
        }
        files = {
            f"{top}/state": "4: ACTIVE\n",
            f"{top}/link_layer": "Ethernet\n",
            f"{top}/rate": "200 Gb/sec (4X HDR)\n",
        }
        for index, (gid, kind) in gids.items():
            files[f"{top}/gids/{index}"] = f"{gid}\n"
            files[f"{top}/gid_attrs/types/{index}"] = f"{kind}\n"
            files[f"{top}/gid_attrs/ndevs/{index}"] = f"{self.interface}\n"
        return files


def gb10(folder: Path, port: Port, busy: bool) -> Path:
    """A DGX Spark's answers, as files below ``folder``. ``busy``: the recorded engine holds memory of its GPU."""
    told = {path.stem: path.read_text() for path in (RECORDED / "gb10").glob("*.txt")}
    if not busy:
        rows = told["gpu_processes"].splitlines(keepends=True)
        told["gpu_processes"] = "".join(row for row in rows if "Xorg" in row)
    answers = {command: told[section] for command, section in _TOOLS.items()}
    answers["nvidia-smi --query-gpu=driver_version --format=csv,noheader"] = "580.95.05\n"
    programs = {
        "usr/bin/nvidia-smi": stand_in("nvidia-smi", answers, None),
        "usr/bin/uname": stand_in(
            "uname", {"uname -m": told["cpu_arch"], "uname -r": told["kernel"]}, "/usr/bin/uname.real"
        ),
        "usr/bin/getconf": stand_in(
            "getconf", {"getconf GNU_LIBC_VERSION": told["libc"]}, "/usr/bin/getconf.real"
        ),
    }
    files = {
        "proc/meminfo": told["host_memory"],
        "proc/driver/nvidia/version": told["driver"],
        "etc/os-release": told["system"],
        "sys/bus/pci/devices/000f:01:00.0/vendor": "0x10de\n",
        "sys/bus/pci/devices/000f:01:00.0/class": "0x030000\n",
        "dev/nvidia0": "",
        "dev/nvidiactl": "",
        **{f"dev/infiniband/{name}": "" for name in told["rdma_nodes"].split()},
        **port.files(),
        MARK: MARKED,
    }
    for path, text in {**files, **programs}.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        target.chmod(0o755 if path in programs else 0o644)
    return folder


def stand_in(name: str, answers: Mapping[str, str], real: str | None) -> str:
    """A program that prints what was recorded for its exact arguments; the real one, or a failure, for any other."""
    cases = []
    for command, text in answers.items():
        words = " ".join(shlex.split(command)[1:])
        cases.append(f"{shlex.quote(words)}) printf '%s' {shlex.quote(text)}; exit 0;;")
    rest = f'exec {real} "$@"' if real else f'echo "{name}: nothing was recorded for: $*" >&2; exit 78'
    return "\n".join(
        ["#!/bin/sh", "# Recorded answers, not this machine's.", 'case "$*" in', *cases, "esac", rest, ""]
    )
