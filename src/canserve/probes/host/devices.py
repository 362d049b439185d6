"""Which makers' accelerators the buses show, driver or not: what proves that there is none."""

from __future__ import annotations

from collections.abc import Mapping

from canserve.facts import Cause, Fact
from canserve.probes.host.probe import Probe, Seen

MAKERS: Mapping[str, str] = {
    "0x10de": "nvidia", "0x1002": "amd", "0x1da3": "intel", "0x8086": "intel", "0x19e5": "huawei"
}  # fmt: skip
"""PCI vendor -> maker of accelerators, as profiles name it."""
_SCRIPT = r"""[ -d /sys/bus/pci/devices ] || [ -d /sys/class/drm ] || [ -d /sys/devices/system/cpu ] || exit 1
for d in /sys/bus/pci/devices/*; do
  [ -e "$d/class" ] || continue
  value "$d/class"; c=$v; value "$d/vendor"
  case $c in 0x03*|0x12*) ;; *) continue;; esac
  # Intel's display controller on the first bus is the processor's own.
  case $v,${d##*/} in 0x8086,0000:00:*) continue;; esac
  printf '%s %s %s\n' "$v" "$c" "${d##*/}"
done
for f in /dev/nvidia0 /dev/nvidiactl /dev/nvmap /dev/kfd /dev/dxg /dev/accel0 /dev/neuron0 /dev/davinci0; do [ -e "$f" ] && echo "$f"; done
exit 0"""
_FILES = {
    "/dev/accel0": "any",
    "/dev/neuron0": "any",
    "/dev/davinci0": "huawei",
    "/dev/nvidia0": "nvidia",
    "/dev/nvidiactl": "nvidia",
    "/dev/nvmap": "nvidia",
    "/dev/kfd": "amd",
    "/dev/dxg": "any",
}


def devices(seen: Seen) -> Fact[frozenset[str]]:
    """Makers of what is there; ``any``: a device that hides its maker."""
    if seen.answer.status != 0:
        return seen.missing(Cause.UNAVAILABLE, "no /sys: what is on its buses cannot be told")
    found = set()
    for row in seen.rows:
        word = row.split()[0]
        if maker := MAKERS.get(word) or _FILES.get(word):
            found.add(maker)
    return seen.known(frozenset(found), None if seen.rows else "no accelerator on any bus")


DEVICES = Probe("devices", _SCRIPT, "/sys/bus/pci/devices/*/{vendor,class}, /dev", devices, quick=True)
