"""argv that prints what a process of a deployment wrote."""

from __future__ import annotations

_CONTAINER = 'exec "$0" logs --tail "$1" $3 -- "$2" 2>&1'
_BOUNDED = 'exec 2>&1; {{ {source}; }} | {{ head -c "$1"; tail -c "$2"; }}'


def container_log(program: str, name: str, tail: int, follow: bool) -> tuple[str, ...]:
    """Of a container; both of its streams."""
    return ("sh", "-c", _CONTAINER, program, str(tail), name, "--follow" if follow else "")


def process_log(folder: str, tail: int, follow: bool) -> tuple[str, ...]:
    """Of a process that runs in no container."""
    return ("tail", "-n", str(tail), *(("-f",) if follow else ()), "--", f"{folder}/log")


def whole_container_log(program: str, name: str, first: int, last: int) -> tuple[str, ...]:
    """Of a container, both of its streams; of a longer log only so many first and last bytes."""
    script = _BOUNDED.format(source='"$0" logs -- "$3"')
    return ("sh", "-c", script, program, str(first), str(last), name)


def whole_process_log(folder: str, first: int, last: int) -> tuple[str, ...]:
    """The same of a process that runs in no container."""
    return ("sh", "-c", _BOUNDED.format(source='cat -- "$0"'), f"{folder}/log", str(first), str(last))
