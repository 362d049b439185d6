"""Why a machine could not be reached, from what ssh said.

The exit status alone says nothing: 255 is also a script's own. OpenSSH's messages have been the same for decades; one
that is not known is passed on as it stands.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from canserve.facts import Cause


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why no script ran."""

    cause: Cause
    why: str
    """One line."""
    ask: str
    """What would settle it."""
    again: bool = False
    """A second attempt, later, may well succeed."""
    untold: bool = False
    """It says that the way failed and not why: ssh keeps that to itself where a connection is shared with others."""


_SHARED = r"UNKNOWN port 65535|stdio forwarding request failed|Session open refused by peer|mux_client_\w+: .*(?:failed|refused|broken)"
_BUSY = r"kex_exchange_identification|Exceeded MaxStartups|Connection reset by .* port|ssh_exchange_identification"

_KNOWN: Mapping[str, tuple[Cause, str, str]] = {
    r"REMOTE HOST IDENTIFICATION HAS CHANGED|Host key for .* has changed": (
        Cause.UNAVAILABLE,
        "its host key has changed since it was last seen: it was reinstalled, or is not the machine it was",
        "compare the key with the machine's owner, then: ssh-keygen -R HOST",
    ),
    r"Host key verification failed|No .* host key is known": (
        Cause.UNAVAILABLE,
        "its host key is not known here",
        "log in once by hand and compare the key's fingerprint",
    ),
    r"Permission denied|Too many authentication failures|No more authentication methods": (
        Cause.UNAVAILABLE,
        "the login was refused",
        "make `ssh HOST true` work without a password: a key in the agent, the right user",
    ),
    r"Could not resolve hostname": (
        Cause.UNREACHED,
        "its name stands for no address",
        "check the name, or give it a HostName in the ssh configuration",
    ),
    r"Connection refused": (
        Cause.UNREACHED,
        "nothing answers on its ssh port",
        "start sshd there, or check the port",
    ),
    r"timed out|No route to host|Network is unreachable|Host is down|not responding": (
        Cause.UNREACHED,
        "it does not answer",
        "check that it is up and that this machine may reach it",
    ),
    r"Bad configuration option|Bad owner or permissions|terminating, \d+ bad": (
        Cause.UNAVAILABLE,
        "ssh does not accept its configuration",
        "correct the ssh configuration",
    ),
}


def refusal(talk: str, status: int | None, late: str | None, jumps: tuple[str, ...]) -> Refusal:
    """The reason, from stderr, the exit status, why the run was ended here, and the jump hosts on the way."""
    lines = [line.strip() for line in talk.splitlines() if line.strip()]
    said = f" (ssh: {lines[-1].removeprefix('ssh: ')[:200]})" if lines else ""
    via = ""
    if jumps and re.search(
        r"UNKNOWN port 65535|stdio forwarding (?:request )?failed|Connection closed by UNKNOWN", talk
    ):
        via = f"on the way through {', '.join(jumps)}: "
    for pattern, (cause, why, ask) in _KNOWN.items():
        if (match := re.search(f"^.*(?:{pattern}).*$", talk, re.MULTILINE)) is not None:
            return Refusal(cause, f"{via}{why} (ssh: {match[0].strip().removeprefix('ssh: ')[:200]})", ask)
    untold = re.search(_SHARED, talk) is not None
    if re.search(_BUSY, talk):
        return Refusal(
            Cause.UNREACHED,
            f"{via}its sshd closed the connection at once{said}",
            "try again later",
            again=True,
            untold=untold,
        )
    if late is not None:
        return Refusal(Cause.UNREACHED, f"{via}{late}{said}", "check that it is up and answers ssh")
    if status == 255 or status is None or untold:
        why = f"{via}the connection failed{said}"
        return Refusal(Cause.UNREACHED, why, "try: ssh HOST true", untold=untold)
    return Refusal(
        Cause.UNAVAILABLE,
        f"it ran no script: exit status {status}{said}",
        "its account needs a POSIX shell: try ssh HOST /bin/sh",
    )
