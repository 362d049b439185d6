"""Scripts that show how the processes of a deployment stand: their stacks, and what the machine counts. They change nothing."""

from __future__ import annotations

import shlex

from canserve.commands.serving import VARIABLE

MOST = 24
"""Processes of a deployment whose stacks are read on one machine."""

# Of every process of the run that is an interpreter: with py-spy where there is one (the build's own before any other,
# as it came with that interpreter), without stopping it.
_STACKS = r"""
spy=$(command -v %(beside)s/py-spy || command -v py-spy) || spy=
n=0
for f in $(grep -lsF %(mine)s /proc/[0-9]*/environ); do
  p=${f#/proc/}; p=${p%%/environ}; [ "$n" -lt %(most)d ] || break
  case $(readlink "/proc/$p/exe" 2>/dev/null) in *python*) ;; *) continue;; esac
  n=$((n + 1))
  if [ -n "$spy" ]; then within 8 "$spy" dump --nonblocking --pid "$p" 2>&1; echo
  else printf 'Process %%s: no py-spy; waits in %%s\n' "$p" "$(cat "/proc/$p/wchan" 2>/dev/null)"; fi
done; :"""
_INSIDE = (
    "command -v py-spy >/dev/null || { echo no py-spy; exit 0; }; n=0; for p in /proc/[0-9]*; do "
    f'[ "$n" -lt {MOST} ] || break; case $(readlink "$p/exe" 2>/dev/null) in *python*) ;; *) continue;; esac; '
    'n=$((n + 1)); timeout 8 py-spy dump --nonblocking --pid "${p#/proc/}" 2>&1; echo; done'
)
_CONTAINERS = r"""command -v %(program)s >/dev/null 2>&1 || exit 3
for c in $(within 10 %(program)s ps -q --no-trunc --filter %(filter)s); do
  within 40 %(program)s exec "$c" sh -c %(inside)s 2>&1; echo
done; :"""
COUNTERS = r"""for f in /proc/loadavg /proc/meminfo /proc/net/dev /proc/pressure/memory /proc/pressure/io; do
  [ -r "$f" ] && { echo "== $f"; head -n 60 "$f"; }
done
echo '== /dev/shm'; ls -lA /dev/shm 2>/dev/null | head -n 200
echo '== disks'; within 10 df -k
echo '== sockets'; if command -v ss >/dev/null 2>&1; then within 10 ss -tnap | head -n 400; else head -n 400 /proc/net/tcp; fi
if command -v nvidia-smi >/dev/null 2>&1; then echo '== nvidia-smi'; within 15 nvidia-smi; fi
echo '== kernel'; within 10 dmesg 2>/dev/null | grep -iE 'out of memory|oom-kill|killed process|xid|nvrm' | tail -n 40; :"""
PROCESSES = r"""for f in $(grep -lsF %(mine)s /proc/[0-9]*/environ); do
  p=${f%%/environ}; printf '== %%s: ' "${p#/proc/}"; head -c 600 "$p/cmdline" 2>/dev/null | tr '\0' ' '; echo
  grep -E '^(State|PPid|Threads|VmRSS|VmSwap)' "$p/status" 2>/dev/null
  printf 'waits in %%s\n' "$(cat "$p/wchan" 2>/dev/null)"; grep -E '^(read|write)_bytes' "$p/io" 2>/dev/null
done; :"""
_STATES = r"""command -v %(program)s >/dev/null 2>&1 || exit 3
for c in $(within 10 %(program)s ps -a -q --no-trunc --filter %(filter)s); do
  within 10 %(program)s container inspect --format '{{.Name}} {{json .State}}' "$c"; within 10 %(program)s top "$c"
done; :"""


def stacks_of_processes(run: str, beside: str) -> str:
    """Stacks of all interpreters of a run. ``beside``: the build's folder of programs, whose own py-spy is taken first."""
    return _STACKS % {"mine": _mine(run), "beside": shlex.quote(beside), "most": MOST}


def stacks_of_containers(program: str, label: str) -> str:
    """The same inside its containers, where the image has py-spy."""
    return _CONTAINERS % {
        "program": program,
        "filter": shlex.quote(f"label={label}"),
        "inside": shlex.quote(_INSIDE),
    }


def processes(run: str) -> str:
    """What the kernel counts of the processes of a run."""
    return PROCESSES % {"mine": _mine(run)}


def states(program: str, label: str) -> str:
    """What a container engine says of the containers of a run: never their variables."""
    return _STATES % {"program": program, "filter": shlex.quote(f"label={label}")}


def _mine(run: str) -> str:
    return shlex.quote(f"{VARIABLE}={run}.")
