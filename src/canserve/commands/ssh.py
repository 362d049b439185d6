"""argv of the OpenSSH client: the user's own configuration decides, and nothing is ever asked at a terminal."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

_JUMP = re.compile(r"(?P<host>(?:[^\s@:/%]+@)?[^\s@:/\[\]%]+)(?::(?P<port>[0-9]{1,5}))?")
"""A jump host as ``ProxyJump`` takes it: ``user@host:port``."""


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


def by_hand(route: Route, line: str) -> tuple[str, ...]:
    """A line of a shell, run over there, as somebody would type it here."""
    return ("ssh", *_words(route), "--", route.destination, line)


def shell(route: Route, connect: int, socket: str | None, jumps: tuple[str, ...] = ()) -> tuple[str, ...]:
    """A POSIX shell over there that reads its script from stdin.

    ``connect``: seconds until a connection must be there. ``socket``: path of a control socket, over which
    further calls find the connection open; None: as the user's configuration has it. ``jumps``: machines on the way,
    by the route or by the user's configuration; with a control socket the connection to the last is shared too.
    """
    through = None if socket is None else _through(route, connect, socket, jumps)
    return (
        "ssh",
        *(_words(route) if through is None else (*route.options, "-o", f"ProxyCommand={through}")),
        "-T",
        *_bounded(connect),
        *("-o", "RemoteCommand=none"),
        *(_shared(socket) if socket is not None else ()),
        "--",
        route.destination,
        "exec /bin/sh",  # whatever the login shell is, it understands this
    )


def forward(route: Route, connect: int, socket: str, port: int) -> tuple[str, ...]:
    """Leads a socket here to a port of the machine's loopback, over a connection of its own, until it is ended."""
    return (
        *("ssh", *_words(route), "-N", "-T", *_quiet(connect)),
        *("-o", "RemoteCommand=none", "-o", "ControlMaster=no", "-o", "ControlPath=none"),
        *("-o", "ExitOnForwardFailure=no", "-L", f"{socket}:127.0.0.1:{port}", "--", route.destination),
    )


def _bounded(connect: int) -> tuple[str, ...]:
    """Nothing is asked, nothing of this machine is offered, and no silence lasts."""
    return (*_quiet(connect), "-o", "ClearAllForwardings=yes")


def _quiet(connect: int) -> tuple[str, ...]:
    return (
        *("-a", "-x", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={connect}", "-o", "ConnectionAttempts=1"),
        *("-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=2"),
        *("-o", "PermitLocalCommand=no", "-o", "LogLevel=INFO"),
    )


def _shared(socket: str) -> tuple[str, ...]:
    return ("-o", "ControlMaster=auto", "-o", f"ControlPath={socket}", "-o", "ControlPersist=60")


def _through(route: Route, connect: int, socket: str, jumps: tuple[str, ...]) -> str | None:
    """What ``-J`` runs by itself, with the connection to the jump host shared; None: no jump host, or a form unknown here."""
    found = _JUMP.fullmatch(jumps[-1]) if jumps else None
    if found is None:
        return None
    before = ("-J", ",".join(jumps[:-1])) if jumps[:-1] else ()
    port = ("-p", found["port"]) if found["port"] else ()
    words = ("ssh", *route.options, *before, *port, *_bounded(connect), *_shared(socket))
    # ssh expands what begins with % twice: once for this command, once in it.
    command = shlex.join(words).replace("%", "%%")
    return f"{command} -W '[%h]:%p' -- {shlex.quote(found['host'])}"


def _words(route: Route) -> tuple[str, ...]:
    jump = ("-J", ",".join(route.through)) if route.through else ()
    return (*route.options, *jump)
