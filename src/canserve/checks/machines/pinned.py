"""Lists of names by which the collective library's settings pick interfaces and devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from canserve.checks.reader import Reader
from canserve.subjects.cluster import Node
from canserve.verdict import Unknown


@dataclass(frozen=True, slots=True)
class Setting:
    """A value, and where it is set."""

    value: str
    where: str


def settings(reader: Reader, node: Node) -> Mapping[str, Setting]:
    """Settings of the collective libraries on a machine; a variable wins over the file.

    An empty one sets nothing, for any of the libraries.
    """
    conf = reader.try_read(node.machine.nccl_conf) or {}
    variables = reader.try_read(node.machine.network_environment) or {}
    found = {
        **{name: Setting(value, "nccl.conf") for name, value in conf.items()},
        **{name: Setting(value, "the login's environment") for name, value in variables.items()},
    }
    return {name: it for name, it in found.items() if it.value}


def unsaid(name: str, variable: str, setting: Setting) -> Unknown | None:
    """Of a setting whose value a shell fills in: what it is does not stand there."""
    if not set(setting.value) & _FILLED_IN:
        return None
    return Unknown(
        f"{setting.where} sets {variable}={setting.value}, which a shell fills in",
        f"look on {name} what it is in a new login: printenv {variable}",
    )


_FILLED_IN = frozenset("$`(;&|")
"""Text of a shell that is more than a value."""


def allows(variable: str, value: str, name: str) -> bool:
    """Whether a variable lets an interface be used: NCCL's way takes beginnings of names, the others whole ones."""
    if variable in {"NCCL_SOCKET_IFNAME", "NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME"}:
        return picks(value, name)
    return name in {word.strip() for word in value.split(",")}


def picks(setting: str, name: str) -> bool:
    """Whether ``NCCL_SOCKET_IFNAME`` or ``NCCL_IB_HCA`` lets a name be used.

    Source: NCCL's guide, "Environment Variables": beginnings of names, divided by commas; ``=`` before them asks for
    whole names, ``^`` excludes them. A port may follow a device after a colon.

    >>> picks("enp1", "enp1s0f0np0"), picks("=enp1", "enp1s0f0np0"), picks("^docker,lo", "enp1s0f0np0")
    (True, False, True)
    """
    exclude = setting.startswith("^")
    exact = setting.lstrip("^").startswith("=")
    words = [word.strip().partition(":")[0] for word in setting.lstrip("^=").split(",")]
    found = any(name == word if exact else name.startswith(word) for word in words if word)
    return found != exclude
