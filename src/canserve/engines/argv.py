"""Engine options as words of a command line: only flags that the build has, under the names that it has."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from canserve.facts import Fact, Known
from canserve.subjects.build import Flag
from canserve.subjects.launch import Host

Words = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags of a build by all their names; where they were not read, every flag is taken as it is."""

    names: Mapping[str, Flag] | None

    @classmethod
    def of(cls, fact: Fact[Mapping[str, Flag]]) -> Flags:
        """From the build's fact."""
        if not isinstance(fact, Known):
            return cls(None)
        return cls({name: flag for flag in fact.value.values() for name in (flag.name, *flag.aliases)})

    def has(self, name: str) -> bool:
        """Whether the build is known to have it."""
        return self.names is not None and name in self.names

    def first(self, *names: str) -> str | None:
        """The first of these that the build has; the very first where flags were not read."""
        if self.names is None:
            return names[0]
        return next((name for name in names if name in self.names), None)

    def set(self, value: object, *names: str) -> Words:
        """The flag with its value; nothing where the build has none of these names."""
        name = self.first(*names)
        return () if name is None else (name, written(value))

    def option(self, option: str, value: object) -> Words:
        """An option under the engine's own name: ``max_num_seqs``, 64 -> ``--max-num-seqs 64``."""
        name = f"--{option.replace('_', '-')}"
        flag = None if self.names is None else self.names.get(name)
        if value is True and (flag is None or flag.kind in ("switch", "pair", None)):
            return (name,)
        if value is False and (flag is None or flag.kind in ("switch", "pair", None)):
            # A switch that is not given is off; only a pair has a word for it.
            return (f"--no-{name[2:]}",) if flag is None or flag.kind == "pair" else ()
        if value is None:
            return ()
        if isinstance(value, list | tuple) and flag is not None and flag.kind == "values":
            return (name, *map(written, value))
        return (name, written(value))


def written(value: object) -> str:
    """A value as one word: numbers and text as they are, everything else as JSON."""
    match value:
        case str():
            return value
        case bool() | dict() | list() | tuple() | None:
            return json.dumps(value)
        case _:
            return str(value)


def options(flags: Flags, chosen: Mapping[str, object], leave: Iterable[str] = ()) -> Words:
    """All options but those that are written elsewhere."""
    left = frozenset(leave)
    return tuple(
        word for name, value in chosen.items() if name not in left for word in flags.option(name, value)
    )


def address(host: Host) -> str:
    """Its IP address, or the placeholder that stands for it."""
    return host.ip or f"${host.placeholder}"


def placeholders(hosts: Iterable[Host]) -> dict[str, str]:
    """Those of these hosts whose address is not known."""
    return {
        host.placeholder: f"IP address of {host.name} on the network that joins the machines"
        for host in hosts
        if host.ip is None
    }


def network(hosts: tuple[Host, ...], host: Host) -> dict[str, str]:
    """Which interface the collective libraries use between several machines, where it is known."""
    if host.interface is None or len(hosts) == 1:
        return {}
    return {"NCCL_SOCKET_IFNAME": host.interface, "GLOO_SOCKET_IFNAME": host.interface}
