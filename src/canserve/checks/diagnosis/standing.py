"""What a start that stands waits for, told while it stands: phases of all ranks, addresses they named, connections.

The stalls are those that ``stalls`` tells from stacks; here their ranks are alive, and there may be no stacks. Never
called before ``plan.watching`` has found that nothing moves: no line and no socket is a stall by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address

from canserve.checks.diagnosis.log import Socket
from canserve.checks.diagnosis.stalls import Stall, count_of
from canserve.subjects.progress import Stage

STANDS = "stands"
"""A stall that no row knows."""
VAGUE = frozenset({STANDS, "store-waits", "collective-stands"})
"""Stalls of which stacks may say more."""
_BEFORE = ("pending", "up", "launched", "configured", "engine")
_JOINING = ("connecting", "met", "joined")


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything that is seen of a start that stands."""

    stages: tuple[Stage, ...]
    """Of ranks only."""
    phase: str
    """Of those that are least far."""
    facts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What all logs told."""
    sockets: tuple[Socket, ...] = ()
    """Of the deployment's own processes."""
    looked: frozenset[str] = frozenset()
    """Machines whose sockets were seen."""

    @property
    def spans(self) -> bool:
        """Whether it has ranks on several machines, or waits for some."""
        return len({stage.machine for stage in self.stages}) > 1 or self.world > len(self.stages)

    @property
    def world(self) -> int:
        """How many ranks there should be, as they said; 0: none did."""
        return max((int(value) for value in self.facts.get("world", ()) if len(value) < 7), default=0)

    @property
    def master(self) -> str:
        """Address and port of the common store; empty: nobody named it."""
        return next((value for value in self.facts.get("address", ()) if ":" in value), "")


def standing(scene: Scene) -> Stall:
    """What it waits for."""
    if scene.phase in _BEFORE:
        return _before(scene)
    if scene.phase in _JOINING:
        return _joining(scene)
    if scene.phase == "loading":
        return Stall("weights-stand", {"whose": _whose(scene)})
    if scene.phase == "capturing":
        return Stall("graphs-stand", {"whose": _whose(scene)})
    return Stall(STANDS, {"whose": _whose(scene)})


def _before(scene: Scene) -> Stall:
    """Some have not come to where they join; where others wait for them, that is what stands."""
    behind = [stage for stage in scene.stages if stage.phase in _BEFORE]
    if len(behind) == len(scene.stages):
        return Stall(STANDS, {"whose": _whose(scene)})
    missing = ", ".join(stage.who for stage in behind[:8])
    return Stall("rank-missing", {"address": _at(scene), "missing": missing})


def _joining(scene: Scene) -> Stall:
    if scene.facts.get("placing") and not scene.master:
        return Stall("ray-lacks-gpus", {"nodes": ""})
    if (refused := _unanswered(scene)) is not None:
        peer = f"{_ip(refused.peer)}:{refused.peer.rpartition(':')[2]}"
        seen = {"whose": f"node {refused.host}" if refused.host else "one node", "peer": peer}
        if _same(refused.peer, scene.master):
            return Stall("store-unreachable", seen)
        if _ip(refused.peer) in set(scene.facts.get("advertised", ())) - _used(scene):
            return Stall("queue-address-unreachable", {"advertised": f" ({_ip(refused.peer)})"})
        return Stall("ranks-cannot-connect", seen)
    if missing := _missing(scene):
        return Stall("rank-missing", {"address": _at(scene), "missing": missing})
    if (advertised := _elsewhere(scene)) is not None:
        return Stall("queue-address-unreachable", {"advertised": f" ({advertised})"})
    if scene.phase == "connecting" and not _all_at_store(scene):
        return Stall("store-waits", {"address": _at(scene)})
    says = "waits for the others while they join" if scene.phase == "connecting" else "has met the others"
    number = count_of(len(scene.stages), "rank")
    return Stall("collective-stands", {"count": number, "says": says, "missing": _unended(scene)})


def _whose(scene: Scene) -> str:
    behind = [stage for stage in scene.stages if stage.phase == scene.phase]
    return ", ".join(f"{stage.who} on {stage.machine}" for stage in behind[:8])


def _at(scene: Scene) -> str:
    return f" at {scene.master}" if scene.master else ""


def _unanswered(scene: Scene) -> Socket | None:
    return next((socket for socket in scene.sockets if socket.state == "SYN-SENT"), None)


def _missing(scene: Scene) -> str:
    """Ranks of the group that nobody started; empty: none, or that is not known."""
    here = {stage.rank for stage in scene.stages}
    missing = [str(rank) for rank in range(min(scene.world, 4096)) if rank not in here][:8]
    if not missing or len(here) >= scene.world:
        return ""
    return f"rank {', '.join(missing)} of {scene.world}"


def _unended(scene: Scene) -> str:
    """Ranks whose collective library began its set-up and did not end it, where others did; empty: not told."""
    begun, ended = (set(scene.facts.get(name, ())) for name in ("begun", "ended"))
    waiting = sorted(begun - ended, key=int)[:8]
    return f"; NCCL did not end its set-up on rank {', '.join(waiting)}" if waiting and ended else ""


def _elsewhere(scene: Scene) -> str | None:
    """An address that a rank advertises and that others cannot mean: a loopback, or none that any of them uses."""
    if scene.phase not in ("met", "joined") or not scene.spans:
        return None
    used = _used(scene)
    for advertised in scene.facts.get("advertised", ()):
        if _is_loopback(advertised) or (scene.master and advertised not in used):
            return advertised
    return None


def _used(scene: Scene) -> set[str]:
    """Addresses over which ranks have reached each other."""
    there = [each for each in scene.sockets if each.state == "ESTAB"]
    return {_ip(scene.master)} | {_ip(end) for each in there for end in (each.local, each.peer)}


def _all_at_store(scene: Scene) -> bool:
    """Whether every machine has a connection to the store, as far as its sockets were seen."""
    there = {each.host for each in scene.sockets if each.state == "ESTAB" and _meets(each, scene.master)}
    machines = {stage.machine for stage in scene.stages}
    return machines <= scene.looked and machines <= there


def _meets(socket: Socket, master: str) -> bool:
    return bool(master) and any(_same(end, master) for end in (socket.local, socket.peer))


def _same(one: str, other: str) -> bool:
    return bool(other) and (_ip(one), one.rpartition(":")[2]) == (_ip(other), other.rpartition(":")[2])


def _ip(end: str) -> str:
    """Of ``[::ffff:10.0.0.1]:80``: ``10.0.0.1``."""
    host = end.rpartition(":")[0].strip("[]")
    return host.removeprefix("::ffff:")


def _is_loopback(text: str) -> bool:
    try:
        return ip_address(text).is_loopback
    except ValueError:
        return False


def merged(tellings: Sequence[Mapping[str, tuple[str, ...]]]) -> Mapping[str, tuple[str, ...]]:
    """What several logs told: every value once, in order."""
    found: dict[str, dict[str, None]] = {}
    for told in tellings:
        for name, values in told.items():
            found.setdefault(name, {}).update(dict.fromkeys(values))
    return {name: tuple(values) for name, values in found.items()}
