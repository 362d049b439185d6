"""Limits and settings that decide whether several processes on several machines can work together."""

from __future__ import annotations

import re
from collections.abc import Mapping

from canserve.facts import Cause, Fact
from canserve.probes.host.probe import Probe, Seen
from canserve.units import Bytes

MAX_FILES = 100
_UNREADABLE = 4
_VARIABLES = "(?:NCCL|GLOO|TP|UCX|NVSHMEM)_[A-Z0-9_]{1,60}"


def memlock(seen: Seen) -> Fact[Bytes | None]:
    """Of a process of this login; None: without limit. The shell counts in KiB."""
    word = seen.answer.text.strip()
    if word == "unlimited":
        return seen.known(None)
    if re.fullmatch(r"\d{1,15}", word):
        return seen.known(Bytes(int(word) * 1024), f"{word} KiB")
    return seen.missing(Cause.UNAVAILABLE, f"the shell does not say it: {seen.answer.complaint}")


def remove_ipc(seen: Seen) -> Fact[bool | None]:
    """The last setting wins; where there is none systemd removes. None: no systemd-logind."""
    rows = seen.rows
    if not rows or rows[-1] != "end":
        return seen.failed("the shell")
    if rows[0] == "none":
        return seen.known(None, "no systemd-logind")
    if rows[0] == "root":
        return seen.known(False, "never of root and system users")
    if rows[0] == "linger":
        return seen.known(False, "the user lingers: systemd takes them to be logged in always")
    found = [match[1].lower() for row in rows if (match := re.fullmatch(r"RemoveIPC\s*=\s*(\w+)", row))]
    if not found:
        return seen.known(True, "not set: systemd's default is yes")
    return seen.known(found[-1] in {"yes", "true", "1", "on"}, f"RemoveIPC={found[-1]}")


def nccl_conf(seen: Seen) -> Fact[Mapping[str, str] | None]:
    """Settings of NCCL's files; None: there is none."""
    if seen.answer.status == _UNREADABLE:
        return seen.missing(
            Cause.UNAVAILABLE, "this user may not read its nccl.conf", "let this user read it"
        )
    if seen.answer.status != 0:
        return seen.known(None, "neither /etc/nccl.conf nor ~/.nccl.conf")
    found = re.findall(r"^\s*(NCCL_[A-Z0-9_]{1,60})\s*=\s*([^\n]{0,200})$", seen.answer.text, re.MULTILINE)
    return seen.known({name: value.strip() for name, value in found})


def network_environment(seen: Seen) -> Fact[Mapping[str, str]]:
    """Variables that every login gets; the last setting of one wins. None that could be a secret is asked for."""
    rows = seen.rows
    if not rows or rows[-1] != "end":
        return seen.failed("the shell")
    found = {}
    for row in rows[:-1]:
        if match := re.fullmatch(rf"(?:export\s+)?({_VARIABLES})=(.{{0,200}}?)\s*", row):
            found[match[1]] = match[2].strip("\"'")
    return seen.known(found, None if found else "no variable of the kind")


def cluster_files(seen: Seen) -> Fact[tuple[str, ...]]:
    """Paths, in the usual places."""
    rows = tuple(dict.fromkeys(row for row in seen.rows if row.startswith("/")))[:MAX_FILES]
    return seen.known(rows, None if rows else "none in the usual places")


def clock(seen: Seen) -> Fact[int]:
    """Seconds since the epoch, by its own clock."""
    word = seen.answer.text.strip()
    if seen.answer.status != 0 or not re.fullmatch(r"\d{9,11}", word):
        return seen.failed("date")
    return seen.known(int(word))


MEMLOCK = Probe("memlock", "ulimit -l", "ulimit -l", memlock, quick=True)
REMOVE_IPC = Probe(
    "remove_ipc",
    "if [ ! -d /run/systemd/system ]; then echo none; echo end; exit; fi\n"
    # systemd spares root and system users, whose numbers end below 1000.
    'if [ "$(id -u)" -lt 1000 ]; then echo root; echo end; exit; fi\n'
    'if [ -e "/var/lib/systemd/linger/$(id -un)" ]; then echo linger; echo end; exit; fi\n'
    "echo logind\n"
    "for f in /usr/lib/systemd/logind.conf /etc/systemd/logind.conf /usr/lib/systemd/logind.conf.d/*.conf \\\n"
    "  /run/systemd/logind.conf.d/*.conf /etc/systemd/logind.conf.d/*.conf; do\n"
    '  [ -r "$f" ] && sed -n \'s/^[[:space:]]*\\(RemoveIPC[[:space:]]*=.*\\)/\\1/p\' "$f"\n'
    "done; echo end",
    "RemoveIPC in /etc/systemd/logind.conf and its .d folders",
    remove_ipc,
    quick=True,
)
NCCL_CONF = Probe(
    "nccl_conf",
    'r=1; for f in /etc/nccl.conf "$HOME/.nccl.conf"; do [ -e "$f" ] || continue\n'
    f'  [ -r "$f" ] || exit {_UNREADABLE}; r=0; cat "$f"; echo; done; exit $r',
    "/etc/nccl.conf, ~/.nccl.conf",
    nccl_conf,
)
NETWORK_ENVIRONMENT = Probe(
    "network_environment",
    f"for f in /etc/environment /etc/profile.d/*.sh; do\n"
    f'  [ -r "$f" ] && sed -nE \'s/^[[:space:]]*((export[[:space:]]+)?{_VARIABLES.replace("?:", "")}=.*)/\\1/p\' "$f"\n'
    "done; echo end",
    "NCCL_*, *_SOCKET_IFNAME, UCX_* and NVSHMEM_* in /etc/environment and /etc/profile.d",
    network_environment,
)
CLUSTER_FILES = Probe(
    "cluster_files",
    'for f in "$HOME"/*cluster*.sh "$HOME"/*/*cluster*.sh "$HOME"/*cluster*.yaml "$HOME"/*/*cluster*.yaml \\\n'
    '  "$HOME"/docker-compose*.y*ml "$HOME"/compose.y*ml "$HOME"/*/docker-compose*.y*ml "$HOME"/*/compose.y*ml \\\n'
    '  "$HOME"/.env "$HOME"/*.env "$HOME"/*/.env /etc/slurm/slurm.conf /etc/slurm-llnl/slurm.conf \\\n'
    "  /etc/rancher/k3s/k3s.yaml /etc/kubernetes/kubelet.conf /opt/*/*cluster*.sh; do\n"
    '  [ -f "$f" ] && printf \'%s\\n\' "$f"; done; exit 0',
    "*cluster*.sh, compose files, .env, slurm.conf",
    cluster_files,
)
CLOCK = Probe("clock", "date +%s", "date +%s", clock, quick=True)
