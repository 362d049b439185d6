"""Lists of names by which the collective library's settings pick interfaces and devices."""

from __future__ import annotations


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
