"""argv that starts one process of a deployment: in a container, or from an environment in a session of its own."""

from __future__ import annotations

from collections.abc import Sequence

from canserve.commands.contained import (
    RUN_LABEL,
    beside_of,
    contained,
    container_name,
    run_words,
    surroundings,
)
from canserve.engines import ray
from canserve.subjects.deployment import Deployment, Folder, Image

__all__ = ["RUN_LABEL", "VARIABLE", "beside_of", "container_name", "folder", "inside", "start"]

VARIABLE = "CANSERVE_RUN"
"""In the environment of every process of a deployment that runs in no container: its name, and a full stop, so that
no name is the beginning of another."""

_DETACHED = (
    'b=$1; shift; u=$(umask); umask 077; exec </dev/null >"$0/log" 2>&1 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; '
    'umask "$u"; echo $$ >"$0/pid"; chmod 644 "$0/pid"; PATH=$b:$PATH; export PATH; unset LC_ALL; '
    '"$@"; c=$?; umask 022; echo $c >"$0/exit"'
)
"""Whoever may look sees that a process runs and how it ended; what it said, only its own user."""
_WITH_FILES = (
    'n=$1; shift; while [ "$n" -gt 0 ]; do while IFS= read -r l; do case $l in [A-Za-z_]*=*) export "$l";; '
    'esac; done <"$1" || exit; shift; n=$((n - 1)); done; '
)


def folder(state: str, run: str, number: int | None = None) -> str:
    """Of a process that runs in no container, or of all of a run: holds its log, and how it ended."""
    return f"{state}/{run}" if number is None else f"{state}/{run}/{number}"


def start(it: Deployment, number: int) -> tuple[str, ...]:
    """Starts a process; returns at once."""
    if isinstance(it.where, Image):
        words = run_words(contained(it, it.where, number))
        return (it.where.program, "run", "--detach", "--pull", "never", *words)
    return _detached(it, it.where, number)


def restart(program: str, run: str, number: int, policy: str) -> tuple[str, ...]:
    """Sets a container's restart policy. Not while it starts: what fails then has to be seen to have ended."""
    return (program, "update", "--restart", policy, container_name(run, number))


def inside(it: Deployment, number: int, words: Sequence[str]) -> tuple[str, ...]:
    """A command beside a process that runs: in its container, or from the same environment."""
    if isinstance(it.where, Image):
        return (it.where.program, "exec", container_name(it.run, number), *words)
    return (f"{it.where.path}/bin/{words[0]}", *words[1:])


def _detached(it: Deployment, where: Folder, number: int) -> tuple[str, ...]:
    process = it.processes[number]
    program, *words = ray.kept(process.argv)
    files = it.given.secret_files
    read = (_WITH_FILES, str(len(files)), *files) if files else ("",)
    variables = (f"{name}={value}" for name, value in surroundings(it, number).items())
    return (
        *("env", f"{VARIABLE}={it.run}.", *variables),
        *("setsid", "--fork", "sh", "-c", read[0] + _DETACHED, folder(it.state, it.run, number), *read[1:]),
        *(f"{where.path}/bin", f"{where.path}/bin/{program}", *words),
    )
