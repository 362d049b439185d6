"""argv of the OpenSSH client: the user's own configuration decides, and nothing is ever asked at a terminal."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Route:
    """How a machine is reached: its ssh destination, and the destinations on the only way to it."""

    destination: str
    """As ``ssh`` takes it: ``user@host``, or a name of the user's ssh configuration."""
    through: tuple[str, ...] = ()
    """Jump hosts, the nearest first."""
    options: tuple[str, ...] = ()
    """Further words for every call, such as ``-F FILE``."""


def settings(route: Route) -> tuple[str, ...]:
    """Prints what the user's configuration says of a destination; connects to nothing."""
    return ("ssh", *_words(route), "-G", "--", route.destination)


def shell(route: Route, connect: int, socket: str | None) -> tuple[str, ...]:
    """A POSIX shell over there that reads its script from stdin.

    ``connect``: seconds until a connection must be there. ``socket``: path of a control socket, over which
    further calls find the connection open; None: as the user's configuration has it.
    """
    shared = ("-o", "ControlMaster=auto", "-o", f"ControlPath={socket}", "-o", "ControlPersist=60")
    return (
        "ssh",
        *_words(route),
        "-T",
        "-a",
        "-x",
        *("-o", "BatchMode=yes", "-o", f"ConnectTimeout={connect}", "-o", "ConnectionAttempts=1"),
        *("-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=2", "-o", "ClearAllForwardings=yes"),
        *("-o", "PermitLocalCommand=no", "-o", "RemoteCommand=none", "-o", "LogLevel=INFO"),
        *(shared if socket is not None else ()),
        "--",
        route.destination,
        "exec /bin/sh",  # whatever the login shell is, it understands this
    )


def _words(route: Route) -> tuple[str, ...]:
    jump = ("-J", ",".join(route.through)) if route.through else ()
    return (*route.options, *jump)
