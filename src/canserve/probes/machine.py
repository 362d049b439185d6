"""Machines as a user names them: ``profile:h200``, ``2xprofile:h200``, a cluster file, ``local`` or a host.

A cluster file says which machines there are, how to reach them, and what is known of each:

    [nodes.head]
    profile = "dgx-spark"
    address = "spark-1"
    internet = true
    ip = "192.168.100.10"
    interface = "enp1s0f0np0"
    driver = "580.95.05"
    source = "read on the machine"

    [nodes.second]
    profile = "dgx-spark"
    address = "spark-2"
    through = "head"
    internet = false

``ip`` and ``interface`` are those of the network that joins the machines while they serve; engines are told
them. ``profile`` gives the facts of a kind of machine; any fact may be stated beside it and then wins. ``source``
says where the stated facts come from. A node with an ``address`` is looked at, and what is read on it wins;
``look = false`` says not to: it is as it is described.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from ipaddress import ip_address
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

from canserve.facts import Evidence, Fact, Known
from canserve.probes.live import Way, look_at
from canserve.probes.toml_file import file_bytes, parsed
from canserve.rules.machines import FIELDS, PREFIX, every_name, names, profile, unstated
from canserve.subjects.cluster import Cluster, Node
from canserve.subjects.machine import Machine

SUFFIX = ".toml"
MAX_NODES = 1000
MAX_TEXT = 255
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
ADDRESS = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@:%\[\]-]*")
"""An ssh destination; it never begins with a dash, so that no command takes it for an option."""
HEADER = re.compile(r"\s*\[+\s*(.*?)\s*\]+\s*(#.*)?")
INTERFACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,31}")
REACH = {"profile", "address", "through", "internet", "ip", "interface", "source", "look"}


class MachineError(ValueError):
    """A machine that cannot be what was named: one line that says what is wrong and where."""


def read_machine(target: str, way: Way | None = None) -> Machine:
    """One machine, looked at where it is no profile. Raises MachineError for what cannot be one."""
    return look_at(((_node(target),),), way or Way())[0][0].machine


def read_machines(target: str, way: Way | None = None) -> tuple[Machine, ...]:
    """All machines that a target of ``--on`` stands for. Raises MachineError."""
    if target.endswith(SUFFIX):
        (nodes,) = look_at((read_cluster(Path(target)).nodes,), way or Way())
        return tuple(node.machine for node in nodes)
    return (read_machine(target, way),)


def _node(target: str) -> Node:
    """A profile, which has no address, or a machine that is known by nothing but its address."""
    if target.lower().startswith(PREFIX):
        machine = _profile(target[len(PREFIX) :], target)
        return Node(machine.subject, machine, None, None, None)
    if not ADDRESS.fullmatch(target):
        raise MachineError(f"{_plain(target)} is no ssh destination, no profile and no cluster file")
    machine = Machine(target, **{field: unstated(target, field) for field in FIELDS})
    return Node(target, machine, target, None, None)


def read_nodes(targets: Sequence[str], way: Way | None = None) -> tuple[Node, ...]:
    """The machines of several targets as nodes, each with a name of its own.

    ``2xprofile:dgx-spark`` stands for two machines of a kind. Raises MachineError.
    """
    groups: list[tuple[Node, ...]] = []
    counts: list[int] = []
    for target in targets:
        count, kind = _several(target)
        groups.append(read_cluster(Path(kind)).nodes if kind.endswith(SUFFIX) else (_node(kind),))
        counts.append(count)
    total = sum(count * len(group) for count, group in zip(counts, groups, strict=True))
    if total > MAX_NODES:
        raise MachineError(f"{total} machines; at most {MAX_NODES}")
    looked = look_at(groups, way or Way())
    return _named_apart([n for count, group in zip(counts, looked, strict=True) for n in group * count])


def _several(target: str) -> tuple[int, str]:
    """``2xprofile:h200`` -> 2, ``profile:h200``; only before a profile, as hosts may be called anything."""
    match = re.fullmatch(r"([0-9]{1,6})\s*[x*]\s*(profile:.+)", target, re.IGNORECASE)
    if match is None:
        bare = re.fullmatch(r"[0-9]{1,6}\s*[x*]\s*(.+)", target, re.IGNORECASE)
        if bare is not None and profile(bare[1]) is not None:
            raise MachineError(
                f"{_plain(target)} is no host; of a profile: {target[: bare.start(1)]}{PREFIX}{bare[1]}"
            )
        return 1, target
    if not 0 < int(match[1]) <= MAX_NODES:
        raise MachineError(f"{_plain(target)}: between 1 and {MAX_NODES} machines")
    return int(match[1]), match[2]


def _named_apart(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Further nodes of one name get a number: ``profile:h200``, ``profile:h200#2``."""
    seen: dict[str, int] = {}
    out = []
    for node in nodes:
        count = seen[node.name] = seen.get(node.name, 0) + 1
        out.append(node if count == 1 else replace(node, name=f"{node.name}#{count}"))
    return tuple(out)


def read_cluster(path: Path) -> Cluster:
    """The machines of a cluster file. Raises MachineError: unreadable, malformed, or contradicting itself."""
    return parse_cluster(file_bytes(path, MachineError), str(path))


def parse_cluster(data: bytes, name: str) -> Cluster:
    """A cluster from the bytes of its file. Raises MachineError."""
    text, table = parsed(data, name, MachineError)
    return _Reading(name, text).cluster(table)


class _Reading:
    """One cluster file being read; knows where things stand in it, for messages and evidence."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.lines = text.splitlines()
        self.tables: dict[str, list[range]] = {}
        """By the last word of a table's header: the lines from the header to the next one."""
        headers = [(at, found[1]) for at, line in enumerate(self.lines) if (found := HEADER.fullmatch(line))]
        for (at, title), (end, _) in pairwise([*headers, (len(self.lines), "")]):
            self.tables.setdefault(_bare(title.split(".")[-1]), []).append(range(at, end))

    def cluster(self, table: Mapping[str, Any]) -> Cluster:
        """The whole file."""
        if unknown := sorted(set(table) - {"nodes"}):
            raise self.wrong(f"unknown key {_plain(unknown[0])}", "", unknown[0])
        nodes = table.get("nodes")
        if not isinstance(nodes, dict) or not nodes:
            raise MachineError(f"{self.name}: names no machines: write [nodes.NAME] tables")
        if len(nodes) > MAX_NODES:
            raise MachineError(f"{self.name}: more than {MAX_NODES} nodes")
        read = tuple(self._node(name, values) for name, values in nodes.items())
        for node in read:
            self._reachable(node, {other.name: other for other in read})
        return Cluster(self.name, read)

    def _node(self, name: str, values: object) -> Node:
        if not NAME.fullmatch(name):
            raise MachineError(
                f"{self.name}: {_plain(name)} is no name for a node: letters, digits, . _ and -"
            )
        if not isinstance(values, dict):
            raise self.wrong(f"{name} is not a table: write [nodes.{name}]", "nodes", name)
        if unknown := sorted(set(values) - REACH - set(FIELDS)):
            near = get_close_matches(unknown[0], REACH | set(FIELDS), n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise self.wrong(f"{name} has the unknown key {_plain(unknown[0])}{hint}", name, unknown[0])
        internet, look = values.get("internet"), values.get("look")
        for key, truth in (("internet", internet), ("look", look)):
            if truth is not None and not isinstance(truth, bool):
                raise self.wrong(f"{name}: {key} is true or false", name, key)
        address = self._text(name, values, "address")
        if address is not None and not ADDRESS.fullmatch(address):
            raise self.wrong(f"{name}: {_plain(address)} is no ssh destination", name, "address")
        machine, through = self._machine(name, values), self._text(name, values, "through")
        return Node(
            name, machine, address, through, internet, *self._network(name, values), look=look is not False
        )

    def _network(self, name: str, values: Mapping[str, Any]) -> tuple[str | None, str | None]:
        """IP address and interface of the network that joins the machines."""
        ip, interface = self._text(name, values, "ip"), self._text(name, values, "interface")
        try:
            ip = None if ip is None else str(ip_address(ip))
        except ValueError:
            raise self.wrong(f"{name}: {_plain(ip)} is no IP address", name, "ip") from None
        if interface is not None and not INTERFACE.fullmatch(interface):
            raise self.wrong(f"{name}: {_plain(interface)} is no network interface", name, "interface")
        return ip, interface

    def _machine(self, name: str, values: Mapping[str, Any]) -> Machine:
        """The profile's facts, and over them those that the file states."""
        kind = self._text(name, values, "profile")
        subject = f"{name} ({self.name})"
        facts: dict[str, Fact[Any]] = {field: unstated(subject, field) for field in FIELDS}
        if kind is not None:
            kind = kind.removeprefix(PREFIX)
            if (found := profile(kind)) is None:
                raise self.wrong(no_profile(kind), name, "profile")
            facts = {field: getattr(found, field) for field in FIELDS}
        source = self._text(name, values, "source") or "stated in the cluster file"
        facts |= {f: self._fact(subject, name, f, values[f], source) for f in FIELDS if f in values}
        return Machine(subject, **facts)

    def _fact(self, subject: str, node: str, field: str, value: object, source: str) -> Fact[Any]:
        try:
            known = FIELDS[field](value)
        except (TypeError, ValueError) as error:
            raise self.wrong(f"{node}: {field}: {_plain(error)}", node, field) from error
        how = f"{self.name}:{self.line(node, field) or 1}"
        return Known(known, (Evidence(subject, how, f"{field} = {value} [{source}]"),))

    def _text(self, node: str, values: Mapping[str, Any], key: str) -> str | None:
        value = values.get(key)
        if value is None:
            return None
        if not isinstance(value, str) or not value or len(value) > MAX_TEXT or not value.isprintable():
            raise self.wrong(f"{node}: {key} is not a short text", node, key)
        return value

    def _reachable(self, node: Node, nodes: Mapping[str, Node]) -> None:
        """Every ``through`` names a node, and following them comes to an end."""
        seen = [node.name]
        while (via := nodes[seen[-1]].through) is not None:
            if via not in nodes:
                raise self.wrong(
                    f"{seen[-1]}: through names no node of this file: {_plain(via)}", seen[-1], "through"
                )
            if via in seen:
                raise self.wrong(f"{node.name} is reached only through itself", node.name, "through")
            seen.append(via)

    def wrong(self, why: str, node: str, key: str) -> MachineError:
        """The error, with the line the key stands on where it can be found."""
        line = self.line(node, key)
        return MachineError(f"{self.name}:{line}: {why}" if line else f"{self.name}: {why}")

    def line(self, node: str, key: str) -> int | None:
        """The line of ``key`` inside ``[nodes.node]``, as far as it is written in the usual way."""
        everywhere = node in {"", "nodes"}
        for at in range(len(self.lines)) if everywhere else chain(*self.tables.get(node, ())):
            line = self.lines[at]
            if header := HEADER.fullmatch(line):
                if _bare(header[1].split(".")[-1]) == key:
                    return at + 1
            elif "=" in line and _bare(line.split("=")[0].split(".")[-1]) == key:
                return at + 1
        return None


def no_profile(name: str) -> str:
    """What to say of a profile that does not exist."""
    near = get_close_matches(name.lower(), every_name(), n=3)
    known = f"near ones: {', '.join(near)}" if near else f"known: {', '.join(names())}"
    return f"no profile {_plain(name)}; {known}"


def _profile(name: str, target: str) -> Machine:
    found = profile(name)
    if found is None:
        raise MachineError(f"{_plain(target)}: {no_profile(name)}")
    return found


def _bare(word: str) -> str:
    return word.strip().strip("\"'")


def _plain(value: object) -> str:
    """Text from outside, on one line, without what a terminal would act on, and short."""
    return "".join(c if c.isprintable() else "?" for c in str(value))[:MAX_TEXT]
