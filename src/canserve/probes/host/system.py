"""The system under everything: CPU architecture, kernel, distribution, C library, memory."""

from __future__ import annotations

import re

from canserve.facts import Cause, Fact
from canserve.probes.host.probe import Probe, Seen
from canserve.subjects.host import HostMemory
from canserve.units import Bytes

_ARCHES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}


def cpu_arch(seen: Seen) -> Fact[str]:
    """``x86_64`` or ``aarch64``; another one as the kernel calls it."""
    word = seen.answer.text.strip()
    if seen.answer.status != 0 or not re.fullmatch(r"[A-Za-z0-9_]{1,20}", word):
        return seen.failed("uname")
    return seen.known(_ARCHES.get(word.lower(), word))


def kernel(seen: Seen) -> Fact[str]:
    """``6.11.0-1016-nvidia``."""
    word = seen.answer.text.strip()
    if seen.answer.status != 0 or not word or len(word) > 100 or not word.isprintable():
        return seen.failed("uname")
    return seen.known(word)


def system(seen: Seen) -> Fact[str]:
    """The distribution's own name: ``Ubuntu 24.04.3 LTS``."""
    if match := re.search(r"^PRETTY_NAME=[\"']?([^\"'\n]{1,100})", seen.answer.text, re.MULTILINE):
        return seen.known(match[1], match[0])
    return seen.missing(Cause.UNAVAILABLE, "no PRETTY_NAME in /etc/os-release")


def libc(seen: Seen) -> Fact[str]:
    """Version of the GNU C library, ``2.39``; Missing for another library."""
    text = seen.answer.text
    if match := re.search(r"(?:glibc |GNU libc\) |GLIBC )(\d{1,2}\.\d{1,3})", text):
        return seen.known(match[1])
    if match := re.search(r"^ldd \(.*\) (\d{1,2}\.\d{1,3})$", text, re.MULTILINE):
        return seen.known(match[1])
    if "musl" in text:
        return seen.missing(
            Cause.UNAVAILABLE, "its C library is musl, not glibc: wheels for glibc do not run"
        )
    return seen.missing(Cause.UNAVAILABLE, "neither getconf nor ldd says which C library it has")


def host_memory(seen: Seen) -> Fact[HostMemory]:
    """What ``/proc/meminfo`` counts."""
    if seen.answer.status != 0:
        return seen.missing(Cause.UNAVAILABLE, f"no /proc/meminfo: {seen.answer.complaint}")
    found = {
        key: Bytes(int(kib) * 1024)
        for key, kib in re.findall(r"^(\w+):\s*(\d{1,15}) kB$", seen.answer.text, re.MULTILINE)
    }
    total, free = found.get("MemTotal"), found.get("MemFree")
    if total is None or free is None or total.count == 0:
        return seen.unreadable("/proc/meminfo")
    memory = HostMemory(
        total=total,
        free=free,
        available=found.get("MemAvailable"),
        cached=found.get("Cached"),
        swap_total=found.get("SwapTotal"),
        swap_free=found.get("SwapFree"),
        cma_total=found.get("CmaTotal"),
        cma_free=found.get("CmaFree"),
    )
    shown = ("MemTotal", "MemFree", "MemAvailable")
    return seen.known(memory, ", ".join(f"{name} {found[name]}" for name in shown if name in found))


CPU_ARCH = Probe("cpu_arch", "uname -m", "uname -m", cpu_arch, quick=True)
KERNEL = Probe("kernel", "uname -r", "uname -r", kernel, quick=True)
SYSTEM = Probe(
    "system", "cat /etc/os-release || cat /usr/lib/os-release", "/etc/os-release", system, quick=True
)
LIBC = Probe(
    "libc",
    "getconf GNU_LIBC_VERSION 2>/dev/null || ldd --version 2>&1; exit 0",
    "getconf GNU_LIBC_VERSION",
    libc,
    quick=True,
)
HOST_MEMORY = Probe("host_memory", "cat /proc/meminfo", "/proc/meminfo", host_memory, quick=True)
