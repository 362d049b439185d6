"""argv that takes a deployment away from a machine, found again by nothing but its name."""

from __future__ import annotations

from canserve.commands.serving import RUN_LABEL, VARIABLE

GRACE = 20
"""Seconds between asking a process to end and ending it."""

# The processes of a run: whoever has its name in the environment, and everybody in the sessions of those, as
# programs that set their title write over their environment. $0: the run; zombies hold nothing and are left out.
# A session counts to the end: those whose environment said so may be gone before the others.
# Each is asked once, those too that were born meanwhile: a second signal makes some servers drop everything.
_FIND = (
    'sessions=" "; ours() { for f in $(grep -lsF "CANSERVE_RUN=$0." /proc/[0-9]*/environ); do s=; '
    '{ read -r s <"${f%/environ}/stat"; } 2>/dev/null || continue; set -- ${s##*) }; '
    'case $sessions in *" $4 "*) ;; *) sessions="$sessions$4 ";; esac; done; '
    'found=; for f in /proc/[0-9]*/stat; do s=; { read -r s <"$f"; } 2>/dev/null || continue; set -- ${s##*) }; '
    'case $sessions in *" $4 "*) [ "$1" = Z ] || { p=${f#/proc/}; found="$found ${p%/stat}"; };; esac; done; }; '
    'end() { told=" "; late=$(($(date +%s) + $2)); while ours; [ -n "$found" ] && [ "$(date +%s)" -le "$late" ]; do '
    'hold; for p in $found; do case $told in *" $p "*) ;; *) told="$told$p "; kill -"$1" "$p" 2>/dev/null;; esac; done; '
    'sleep 0.2; done; [ -z "$found" ]; }; '
)
assert f"{VARIABLE}=$0." in _FIND
# What they map of /dev/shm, by inode: a semaphore is made under another name than the one it gets. Looked at until they
# are gone, as servers make some while they shut down. Python's own semaphores are mapped by whoever uses them: one of this
# user that nobody maps, younger than the run, was left by somebody who was killed between two looks, or before the first:
# where the head ends, others may end by themselves.
_END = (
    'held=" "; hold() { held="$held$(for p in $found; do '
    'sed -n "s|^[^ ]* [^ ]* [^ ]* [^ ]* \\([0-9]*\\) */dev/shm/.*|\\1|p" "/proc/$p/maps"; '
    'done 2>/dev/null | sort -u | tr "\\n" " ")"; }; '
    'grace=$1; record=$2; ours; [ -z "$found" ] || end TERM "$grace" || end KILL 5; '
    '[ -z "$found" ] || { echo "still there:$found"; exit 1; }; '
    'lost() { case $1 in /dev/shm/sem.mp-*) [ -O "$1" ] && [ -e "$record" ] && [ "$1" -nt "$record" ];; *) false;; esac; }; '
    'for f in /dev/shm/* /dev/shm/.[!.]*; do i=$(ls -di -- "$f" 2>/dev/null) || continue; i=${i% "$f"}; i=${i##* }; '
    'case $held in *" $i "*) ;; *) lost "$f" || continue;; esac; '
    'grep -qs " $i  */dev/shm/" /proc/[0-9]*/maps || rm -f -- "$f"; done'
)
_CONTAINERS = (
    'c=$("$0" ps -a -q --filter "label=$1") || exit; '
    '[ -z "$c" ] || { "$0" stop -t "$2" $c; "$0" rm -f -v $c; } >/dev/null; '
    'c=$("$0" ps -a -q --filter "label=$1") && [ -z "$c" ] || { echo "still there: $c"; exit 1; }'
)
_VOLUMES = 'v=$("$0" volume ls -q --filter "name=$1") || exit; [ -z "$v" ] || "$0" volume rm -f $v >/dev/null'
_RELEASE = (
    'for l in "$1"/*.lock; do case $(readlink -- "$l") in "$0 "*) rm -f -- "$l" || exit;; esac; done; '
    'rm -f -- "$1/$0.json" "$1/$0.json.new" && rm -rf -- "$1/$0"'
)


def containers(program: str, run: str) -> tuple[str, ...]:
    """Stops and removes every container of a run; fails where one is left."""
    return ("sh", "-c", _CONTAINERS, program, f"{RUN_LABEL}={run}", str(GRACE))


def volumes(program: str, run: str) -> tuple[str, ...]:
    """Removes the volumes that were made for a run."""
    return ("sh", "-c", _VOLUMES, program, f"^canserve-{run}-")


def processes(state: str, run: str) -> tuple[str, ...]:
    """Ends every process of a run: asked first, then made to; what they held of /dev/shm goes with them.

    ``state``: the machine's folder of runs; what is older than the run's record there was not made for it.
    """
    return ("sh", "-c", _FIND + _END, run, str(GRACE), f"{state}/{run}.json")


def release(state: str, run: str) -> tuple[str, ...]:
    """Takes away the claims of a run, and its folder."""
    return ("sh", "-c", _RELEASE, run, state)
