"""What a machine said of the addresses that it tried, as links."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from canserve.facts import Cause, Evidence, Fact, Known, Missing
from canserve.subjects.cluster import Node
from canserve.subjects.host import RdmaPort
from canserve.subjects.links import Link, Passage
from canserve.transport.frames import Answer
from canserve.transport.reach import Look

SECTION = "links"
HOW = "python3 (connections, datagrams that may not be cut), ping -M do, ip route get"
_PASSAGES = {
    "open": Passage.OPEN,
    "free": Passage.FREE,
    "silent": Passage.SILENT,
    "away": Passage.TURNED_AWAY,
}
_NO_TOOL = "has neither python3, bash with timeout, nor ping: nothing can be tried from it"


@dataclass(slots=True)
class _Tried:
    """What the lines about one address say."""

    route: str | None = None
    ports: dict[int, Passage] = field(default_factory=dict)
    ping: int | None = None
    """Exit status of ping: 0 answers came, 1 none came; None: it was not asked, or could not try."""
    times: list[float] = field(default_factory=list)
    sizes: dict[int, set[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pair:
    """One machine that tries the addresses of another."""

    source: Node
    target: Node
    addresses: tuple[str, ...]


def links(pair: Pair, look: Look) -> tuple[Link, ...]:
    """One for each address."""
    answer = look.section(SECTION)
    if not isinstance(answer, Answer):
        return tuple(_untried(pair, address, answer) for address in pair.addresses)
    tried = _tried(answer.text)
    whole = answer.whole and answer.text.rstrip().endswith("end")
    return tuple(_link(pair, address, tried.get(address), _Looked(look, whole)) for address in pair.addresses)


def _untried(pair: Pair, address: str, why: Missing) -> Link:
    return Link(pair.source.name, pair.target.name, address, why)


@dataclass(frozen=True, slots=True)
class _Looked:
    look: Look
    whole: bool

    def evidence(self, address: str, saw: str) -> tuple[Evidence, ...]:
        """One look from there at the address."""
        return (Evidence(self.look.subject, f"{HOW}: {address}", saw, self.whole, self.look.when),)


def _tried(text: str) -> dict[str, _Tried]:
    found: dict[str, _Tried] = {}
    now = _Tried()
    for row in text.splitlines():
        words = row.split()
        match words:
            case ["address", address]:
                now = found.setdefault(address, _Tried())
            case ["route", *_]:
                now.route = row.partition(" ")[2][:300]
            case ["tcp", port, how] if port.isdigit() and len(port) < 6 and how in _PASSAGES:
                now.ports[int(port)] = _PASSAGES[how]
            case ["ping", status, *rest] if status in {"0", "1"}:
                now.ping = int(status)
                now.times += [time for word in rest if (time := _milliseconds(word)) is not None]
            case ["rtt", word] if (time := _milliseconds(word)) is not None:
                now.times.append(time)
            case ["udp" | "icmp", size, how] if size.isdigit() and len(size) < 7:
                now.sizes.setdefault(int(size), set()).add(how)
            case _:
                pass  # another machine's words
    return found


def _milliseconds(word: str) -> float | None:
    try:
        value = float(word)
    except ValueError:
        return None
    return value if 0 <= value < 1e6 else None


def _link(pair: Pair, address: str, tried: _Tried | None, looked: _Looked) -> Link:
    source = pair.source
    if tried is None:
        why = f"{source.name} said nothing of {address}"
        return _untried(pair, address, Missing(Cause.UNREADABLE, why, looked.evidence(address, "nothing")))
    interface, own = _route(source, tried.route, looked, address)
    return Link(
        source=source.name,
        target=pair.target.name,
        address=address,
        reaches=_reaches(source, address, tried, looked),
        interface=interface,
        from_address=own,
        mtu=_mtu(source, address, tried, looked),
        latency=_latency(source, address, tried, looked),
        ports=_ports(source, address, tried, looked),
        rdma=_rdma(pair, address, interface),
    )


def _reaches(source: Node, address: str, tried: _Tried, looked: _Looked) -> Fact[bool]:
    passed = any(how in {Passage.OPEN, Passage.FREE} for how in tried.ports.values())
    arrived = any("ok" in said for said in tried.sizes.values())
    if passed or arrived or tried.ping == 0:
        return Known(True, looked.evidence(address, _seen(tried)))
    if tried.route is not None and re.search(r"unreachable|prohibit|blackhole", tried.route):
        return Known(False, looked.evidence(address, tried.route))
    if tried.ports or tried.ping == 1:
        return Known(False, looked.evidence(address, _seen(tried)))
    return Missing(
        Cause.UNAVAILABLE,
        f"{source.name} {_NO_TOOL}",
        looked.evidence(address, "nothing"),
        "install python3 or ping there",
    )


def _seen(tried: _Tried) -> str:
    words = [f"port {port} {how}" for port, how in sorted(tried.ports.items())]
    words += [] if tried.ping is None else ["ping answered" if tried.ping == 0 else "no answer to ping"]
    words += [f"{size} bytes {'/'.join(sorted(said))}" for size, said in sorted(tried.sizes.items())]
    return ", ".join(words) or "nothing"


def _route(
    source: Node, route: str | None, looked: _Looked, address: str
) -> tuple[Fact[str | None], Fact[str | None]]:
    if route is None:
        why = Missing(
            Cause.UNAVAILABLE, f"{source.name} has no ip command", looked.evidence(address, "nothing")
        )
        return why, why
    evidence = looked.evidence(address, route)
    if re.search(r"unreachable|prohibit|blackhole", route):
        return Known(None, evidence), Known(None, evidence)
    device = re.search(r"\bdev ([A-Za-z0-9_.@-]{1,32})", route)
    own = re.search(r"\bsrc ([0-9A-Fa-f:.]{2,45})", route)
    if device is None:
        unread = Missing(Cause.UNREADABLE, f"unknown form of ip route get: {route[:80]!r}", evidence)
        return unread, unread
    return Known(device[1], evidence), Known(own[1] if own else None, evidence)


def _mtu(source: Node, address: str, tried: _Tried, looked: _Looked) -> Fact[int]:
    """The largest that arrived whole. Where none did, not even a small one, nothing is known of sizes."""
    whole = [size for size, said in tried.sizes.items() if "ok" in said]
    if whole:
        return Known(max(whole), looked.evidence(address, _seen(tried)))
    why = f"no packet of a known size came back to {source.name}"
    return Missing(
        Cause.UNAVAILABLE,
        why,
        looked.evidence(address, _seen(tried)),
        f"try there: ping -M do -s 1472 {address}",
    )


def _latency(source: Node, address: str, tried: _Tried, looked: _Looked) -> Fact[float]:
    if tried.times:
        return Known(min(tried.times), looked.evidence(address, f"{min(tried.times):.3g} ms"))
    return Missing(
        Cause.UNAVAILABLE, f"nothing came back to {source.name}", looked.evidence(address, _seen(tried))
    )


def _ports(source: Node, address: str, tried: _Tried, looked: _Looked) -> Fact[Mapping[int, Passage]]:
    if tried.ports:
        return Known(dict(sorted(tried.ports.items())), looked.evidence(address, _seen(tried)))
    why = f"{source.name} has neither python3, nor bash with timeout: no port can be tried from it"
    return Missing(Cause.UNAVAILABLE, why, looked.evidence(address, "nothing"), "install python3 there")


def _rdma(pair: Pair, address: str, interface: Fact[str | None]) -> tuple[str, str] | None:
    """The RDMA ports at both ends: at the source that of its interface, at the target that of the address."""
    name = interface.value if isinstance(interface, Known) else None
    ours = next((port for port in _rdma_ports(pair.source) if name in _interfaces(port)), None)
    theirs = next(
        (port for port in _rdma_ports(pair.target) if any(gid.ipv4 == address for gid in port.gids)), None
    )
    if ours is None or theirs is None:
        return None
    return f"{ours.device}:{ours.port}", f"{theirs.device}:{theirs.port}"


def _rdma_ports(node: Node) -> Sequence[RdmaPort]:
    found = node.machine.rdma
    return [port for port in found.value if port.state == "ACTIVE"] if isinstance(found, Known) else ()


def _interfaces(port: RdmaPort) -> set[str]:
    return {gid.interface for gid in port.gids if gid.interface}
