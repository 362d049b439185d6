"""The disks under images and weights."""

from __future__ import annotations

from canserve.facts import Cause, Fact, Known, Missing
from canserve.probes.host.containers import BEFORE_DOCKER
from canserve.probes.host.probe import Probe, Seen, tabular
from canserve.subjects.host import Disk
from canserve.units import Bytes

HUB = (
    "h=${HF_HUB_CACHE:-${HUGGINGFACE_HUB_CACHE:-}}\n"
    '[ -n "$h" ] || h=${HF_HOME:+$HF_HOME/hub}\n'
    # A login over ssh reads no profile; what the whole system is told stands in /etc/environment.
    '[ -n "$h" ] || h=$(sed -n \'s/^HF_HUB_CACHE="\\{0,1\\}\\([^"]*\\).*/\\1/p\' /etc/environment 2>/dev/null | head -n 1)\n'
    '[ -n "$h" ] || h=$(sed -n \'s/^HF_HOME="\\{0,1\\}\\([^"]*\\).*/\\1\\/hub/p\' /etc/environment 2>/dev/null | head -n 1)\n'
    '[ -n "$h" ] || h=${XDG_CACHE_HOME:-$HOME/.cache}/huggingface/hub\n'
)
"""Sets ``h`` to the folder of the Hub cache, by the hub's own rules."""

_SCRIPT = rf"""{HUB}
nl='
'
one() {{
  p=$2; while [ ! -d "$p" ] && [ "$p" != / ] && [ -n "$p" ]; do p=${{p%/*}}; p=${{p:-/}}; done
  d=$(within 5 df -Pk "$p") || return 0
  printf '%s\t%s\t%s\n' "$1" "$p" "${{d##*"$nl"}}"
}}
r=${{docker_out#*\"DockerRootDir\":\"}}; r=${{r%%\"*}}
case $r in /*) ;; *) r=/var/lib/docker;; esac
one docker "$r"
s=${{XDG_DATA_HOME:-$HOME/.local/share}}/containers/storage; [ "$(id -u)" != 0 ] || s=/var/lib/containers/storage
one podman "$s"
one hub "$h"
one home "$HOME"
exit 0"""
_SHM = (
    "[ -d /dev/shm ] || exit 1; printf 'shm\\t/dev/shm\\t%s\\n' \"$(within 5 df -Pk /dev/shm | tail -n 1)\""
)


def disks(seen: Seen) -> Fact[tuple[Disk, ...]]:
    """Every one that answered."""
    found = [_disk(row) for row in seen.rows]
    whole = tuple(disk for disk in found if disk is not None)
    if not whole:
        return seen.unreadable("df -Pk") if found else seen.failed("df")
    return seen.known(whole, ", ".join(f"{disk.use} {disk.path}: {disk.free} free" for disk in whole))


def _disk(row: str) -> Disk | None:
    """``use TAB folder TAB device blocks used available capacity mount``."""
    cells = tabular(row, 3)
    if cells is None:
        return None
    words = cells[2].split(None, 5)
    numbers = words[-5:-1] if len(words) == 6 else []
    if not numbers or not all(n.isdigit() and len(n) < 16 for n in (words[1], words[3])):
        return None
    return Disk(cells[0], cells[1], words[5], Bytes(int(words[1]) * 1024), Bytes(int(words[3]) * 1024))


def shared_memory(seen: Seen) -> Fact[Disk | None]:
    """``/dev/shm``; None: there is none."""
    if seen.answer.status != 0:
        return seen.known(None, "no /dev/shm")
    found = disks(seen)
    return found if isinstance(found, Missing) else seen.known(found.value[0])


def free_for_weights(found: Fact[tuple[Disk, ...]]) -> Fact[Bytes]:
    """Free on the disk of the Hub cache, where weights go unless told otherwise."""
    if isinstance(found, Missing):
        return found
    hub = next((disk for disk in found.value if disk.use == "hub"), None)
    if hub is None:
        return Missing(Cause.UNAVAILABLE, "the disk of the Hub cache did not answer", found.evidence)
    return Known(hub.free, found.evidence)


DISKS = Probe("disks", _SCRIPT, "df -Pk", disks, before=BEFORE_DOCKER)
SHARED_MEMORY = Probe("shared_memory", _SHM, "df -Pk /dev/shm", shared_memory)
