"""Addresses by which a machine is found from others: which of its interfaces lead anywhere, and what it advertises."""

from __future__ import annotations

import re
from collections.abc import Sequence
from ipaddress import IPv4Interface, IPv6Interface, ip_interface
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from canserve.subjects.host import Interface


Address = IPv4Interface | IPv6Interface

OF_CONTAINERS = re.compile(r"docker|br-|veth|virbr|cni|flannel|cali|kube|podman|lxc|lxd|tailscale|wg|tun|tap")
"""Beginnings of names of interfaces that lead to containers or virtual machines of the machine itself, or through
a tunnel: their addresses are the same on many machines, and no ranks talk over them unless they are told to."""
MOST = 8
"""Addresses of one machine that are told from each other; more are of its containers, or none of ranks' business."""


def is_inner(interface: Interface) -> bool:
    """Whether it leads to nothing but containers of the machine itself, or is its loopback."""
    return interface.name == "lo" or OF_CONTAINERS.match(interface.name) is not None


def addresses(interface: Interface) -> tuple[Address, ...]:
    """Its addresses that reach further than the link, IPv4 first."""
    found = []
    for text in interface.addresses or ():
        try:
            address = ip_interface(text.partition("%")[0])
        except ValueError:
            continue
        if not (address.ip.is_link_local or address.ip.is_loopback or address.ip.is_multicast):
            found.append(address)
    return tuple(sorted(found, key=lambda address: address.version))


def advertised(interfaces: Sequence[Interface], ip: str | None, name: str | None) -> tuple[str, ...]:
    """Addresses that a machine may tell the others, by what the cluster file states, else all that lead anywhere.

    Of an interface with both kinds only IPv4: that is what ranks take.
    """
    if ip is not None:
        return (ip,)
    chosen = [each for each in interfaces if (each.name == name if name else each.up and not is_inner(each))]
    found = [str(held[0].ip) for each in chosen if (held := addresses(each))]
    return tuple(dict.fromkeys(found))[:MOST]
