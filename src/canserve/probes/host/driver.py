"""The NVIDIA driver, and the newest CUDA release that it serves."""

from __future__ import annotations

import re

from canserve.facts import Cause, Fact
from canserve.probes.host.probe import NOT_FOUND, WITH_SMI, Probe, Seen

_VERSION = r"([0-9]{1,5}(?:\.[0-9]{1,5}){1,3})"


def driver(seen: Seen) -> Fact[str | None]:
    """``580.95.05``, from the kernel module itself, else from its tool; None: neither is there."""
    if seen.answer.status == NOT_FOUND:
        return seen.known(None, "neither /proc/driver/nvidia/version nor nvidia-smi")
    for pattern in (rf"NVRM version:.*?\s{_VERSION}\s", rf"^{_VERSION}$"):
        if match := re.search(pattern, seen.answer.text, re.MULTILINE):
            return seen.known(match[1])
    if seen.answer.status != 0:
        said = (seen.rows or [seen.answer.complaint])[-1][:200]
        return seen.missing(Cause.UNAVAILABLE, f"nvidia-smi failed: {said}")
    return seen.unreadable("/proc/driver/nvidia/version")


def cuda(seen: Seen) -> Fact[str | None]:
    """``13.0``; None: there is no such tool."""
    if seen.answer.status == NOT_FOUND:
        return seen.known(None, "no nvidia-smi")
    if match := re.search(rf"CUDA (?:UMD )?Version\s*:\s*{_VERSION}", seen.answer.text):
        return seen.known(match[1], f"CUDA Version: {match[1]}")
    if seen.answer.status != 0:
        said = (seen.rows or [seen.answer.complaint])[-1][:200]
        return seen.missing(Cause.UNAVAILABLE, f"nvidia-smi failed: {said}")
    return seen.unreadable("nvidia-smi")


DRIVER = Probe(
    "driver",
    "[ ! -e /proc/driver/nvidia/version ] || { cat /proc/driver/nvidia/version; exit; }\n"
    f"{WITH_SMI}within 15 nvidia-smi --query-gpu=driver_version --format=csv,noheader",
    "/proc/driver/nvidia/version, or else nvidia-smi --query-gpu=driver_version",
    driver,
)
CUDA = Probe("cuda", f"{WITH_SMI}within 15 nvidia-smi", "nvidia-smi", cuda)
