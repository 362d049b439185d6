"""Whether what a deployment held is free again: its processes and containers, ports, shared memory, accelerators."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from canserve.commands import claims
from canserve.plan.steps.starting import ports
from canserve.probes.live import Way, asked
from canserve.run.awaiting import look_at
from canserve.run.executing import Stop
from canserve.subjects.cluster import Node
from canserve.subjects.deployment import Deployment
from canserve.transport.frames import Section
from canserve.transport.reach import Limits, Look
from canserve.trees.fanout import fanout
from canserve.units import Bytes

PATIENCE = 60.0
"""Seconds: drivers give memory back some seconds after the last process that held it has gone."""
EVERY = 1.0
WIDTH = 32
SLACK = 512 << 20
"""Bytes of an accelerator that others may have taken meanwhile."""
_MEMORY = r"""n=0; for f in /sys/class/drm/card*/device/mem_info_vram_used; do
  [ -r "$f" ] && { read -r b <"$f"; printf '%s %s\n' "$n" "$b"; n=$((n + 1)); }
done
command -v nvidia-smi >/dev/null 2>&1 || exit 0
within 15 nvidia-smi --query-gpu=index,memory.used --format=csv,noheader,nounits | while IFS=', ' read -r i m; do
  case $m in ''|*[!0-9]*) ;; *) printf '%s %s\n' "$i" "$((m * 1048576))";; esac
done"""
_SHARED = "ls -A /dev/shm 2>/dev/null | head -n 4000"


@dataclass(frozen=True, slots=True)
class Held:
    """What was in use on a machine at one moment."""

    memory: Mapping[int, int] = field(default_factory=dict)
    """Bytes in use by accelerator; those that cannot be read are not in it."""
    shared: frozenset[str] = frozenset()
    """Names in ``/dev/shm``."""
    ports: frozenset[int] = frozenset()
    """Of the deployment's own, those on which something listens."""
    trouble: str | None = None
    """Why it could not be looked at."""


@dataclass(frozen=True, slots=True)
class Still:
    """Something that is not free again."""

    machine: str
    what: str
    blocks: bool = False
    """Whether whatever comes next would stumble over it: a process, a container, a port."""
    passes: bool = True
    """Whether it may go away by itself."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """How it is waited for."""

    stop: Stop = field(default_factory=Stop)
    tell: Callable[[str], None] = lambda _: None
    patience: float = PATIENCE
    lost: Mapping[str, str] = field(default_factory=dict)
    """Machines that were not reached while it was taken away, and why: nothing becomes free there by waiting."""


def in_use(it: Deployment, nodes: Sequence[Node], lost: Collection[str] = ()) -> dict[str, Held]:
    """What is in use on the machines of a deployment now, but of those that are lost. Never raises for what one does."""
    named = {node.name: node for node in nodes}

    def look(name: str) -> Held:
        mine = ports(it, name)
        listening = "\n".join((*(f"{shlex.join(claims.listening(p))} && echo {p}" for p in mine), ":"))
        sections = (Section("memory", _MEMORY), Section("shared", _SHARED), Section("ports", listening))
        return _held(asked(named[name], named, sections, Way(), Limits(whole=40)))

    names = [site.name for site in it.sites if site.name not in lost]
    return dict(zip(names, fanout(look, names, WIDTH), strict=True))


def _held(look: Look) -> Held:
    def text(name: str) -> str:
        found = look.answers.get(name)
        return "" if found is None else found.text

    memory = {}
    for line in text("memory").splitlines():
        number, _, used = line.partition(" ")
        if number.isdecimal() and used.isdecimal() and len(used) < 16:
            memory[int(number)] = int(used)
    ports_ = frozenset(int(word) for word in text("ports").split() if word.isdecimal())
    shared = frozenset(text("shared").splitlines())
    return Held(memory, shared, ports_, None if look.trouble is None else look.trouble.why)


def still_held(
    it: Deployment, nodes: Sequence[Node], before: Mapping[str, Held], how: Waiting
) -> tuple[Still, ...]:
    """What of a deployment that was taken away is not free again in time; empty: all is."""
    end = time.monotonic() + how.patience
    lost = [
        Still(name, f"it cannot be seen: {why}", blocks=True, passes=False) for name, why in how.lost.items()
    ]
    while True:
        found = (*lost, *_left(it, nodes, how.lost), *compared(it, before, in_use(it, nodes, how.lost)))
        waiting = [one for one in found if one.passes]
        if not waiting or time.monotonic() > end or how.stop.asked:
            return found
        how.tell(f"waiting until {waiting[0].machine} is free again: {waiting[0].what}")
        how.stop.event.wait(EVERY)


def _left(it: Deployment, nodes: Sequence[Node], lost: Collection[str]) -> list[Still]:
    out = []
    for seen in look_at(it, nodes, lost=lost):
        out += [
            Still(seen.machine, f"{one.kind} {one.name} is still there", blocks=True) for one in seen.running
        ]
        out += [Still(seen.machine, f"{claim.name} is still claimed", blocks=True) for claim in seen.claims]
        if (why := seen.trouble or seen.engine_trouble) is not None and not seen.running:
            out.append(Still(seen.machine, f"it cannot be seen: {why}", blocks=True))
    return out


def compared(it: Deployment, before: Mapping[str, Held], after: Mapping[str, Held]) -> list[Still]:
    """What of its machines is in use after and was not before."""
    out = []
    for site in it.sites:
        now, then = after.get(site.name, Held()), before.get(site.name, Held())
        out += [
            Still(site.name, f"something still listens on port {port}", blocks=True)
            for port in sorted(now.ports - then.ports)
        ]
        for device in site.devices:
            used, was = now.memory.get(device), then.memory.get(device)
            if used is not None and was is not None and used > was + SLACK:
                what = f"accelerator {device} still has {Bytes(used)} in use, {Bytes(was)} before"
                out.append(Still(site.name, what))
        if then.trouble is None and (names := sorted(now.shared - then.shared)):
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            what = f"{names[0]}{more} in shared memory, and was not before"
            out.append(Still(site.name, what, passes=False))
    return out
