"""Machines as the cluster file that ``--on`` takes: what can be stated there, each value as it was read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from canserve.facts import Fact, Known
from canserve.rules.machines import FIELDS
from canserve.subjects.cluster import Node
from canserve.units import Bytes, Capability, Compute, Rate


def cluster_file(nodes: Sequence[Node], asked: str) -> str:
    """The file. ``asked``: what the user named."""
    names = _names(nodes)
    whens = sorted(look.when for node in nodes for look in node.machine.kernel.evidence if look.when)
    source = f"canserve machine {_plain(asked)}{', ' + whens[0] if whens else ''}"
    blocks = ["\n".join(_node(node, names, source)) for node in nodes]
    head = (
        "# Written by canserve machine --save. What is free changes: without `look = false` the machines are looked at\n"
        "# whenever this file is used, and what is read on them wins.\n"
    )
    return "\n\n".join([head + blocks[0], *blocks[1:]]) + "\n" if blocks else head


def _names(nodes: Sequence[Node]) -> dict[str, str]:
    """Names as a cluster file takes them: ``user@host`` -> ``user-host``."""
    found: dict[str, str] = {}
    for number, node in enumerate(nodes, 1):
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", node.name).strip("-.")[:60] or f"node-{number}"
        found[node.name] = name if name not in found.values() else f"{name[:50]}-{number}"
    return found


def _node(node: Node, names: dict[str, str], source: str) -> Iterator[str]:
    name = names[node.name]
    yield f"[nodes.{name}]" if re.fullmatch(r"[A-Za-z0-9_-]+", name) else f"[nodes.{_quoted(name)}]"
    reach = {
        "address": node.address,
        "through": node.through and names.get(node.through, node.through),
        "ip": node.ip,
        "interface": node.interface,
        "source": source,
    }
    for key, value in reach.items():
        if value is not None:
            yield f"{key} = {_quoted(value)}"
    if node.internet is not None:
        yield f"internet = {str(node.internet).lower()}"
    if node.address is not None and node.machine.reached:
        yield "look = false"
    for field in FIELDS:
        text = _stated(field, getattr(node.machine, field))
        if text is not None:
            yield f"{field} = {text}"


def _stated(field: str, fact: Fact[object]) -> str | None:
    """The value in TOML, if a cluster file can say exactly that."""
    if not isinstance(fact, Known):
        return None
    value = _written(fact.value)
    try:
        same = FIELDS[field](value) == fact.value
    except (TypeError, ValueError):
        return None
    if not same:
        return None
    return _quoted(value) if isinstance(value, str) else str(value).lower()


def _written(value: object) -> str | int | bool:
    match value:
        case None:
            return "none"
        case bool() | int():
            return value
        case Bytes(count):
            return f"{count} B"
        case Rate(rate):
            return f"{rate} B/s"
        case Capability():
            return str(value)
        case Compute(bf16, fp8, fp4):
            rates = (("BF16", bf16), ("FP8", fp8), ("FP4", fp4))
            return ", ".join(f"{name} {rate / 1e12:.6f} TFLOP/s" for name, rate in rates if rate is not None)
        case _:
            return str(value)


def _quoted(text: str) -> str:
    """A TOML string: JSON's escapes are TOML's, and nothing but ASCII is left."""
    return json.dumps(text)


def _plain(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)[:100]
