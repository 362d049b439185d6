"""argv that prints what a process of a deployment wrote."""

from __future__ import annotations

_CONTAINER = 'exec "$0" logs --tail "$1" $3 -- "$2" 2>&1'


def container_log(program: str, name: str, tail: int, follow: bool) -> tuple[str, ...]:
    """Of a container; both of its streams."""
    return ("sh", "-c", _CONTAINER, program, str(tail), name, "--follow" if follow else "")


def process_log(folder: str, tail: int, follow: bool) -> tuple[str, ...]:
    """Of a process that runs in no container."""
    return ("tail", "-n", str(tail), *(("-f",) if follow else ()), "--", f"{folder}/log")
