"""Cables between spaces. They lie in a space of their own: one bridge a link, one port a plug.

So a plug can be pulled and the host sees it, a link can be slowed or silenced, and nothing of that shows on the
hosts themselves.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lab.spaces import LabError, Space

RELAY = Path(__file__).with_name("relay.py")
_OFFLOADS = ("tx", "tso", "gso", "gro")


@dataclass(frozen=True, slots=True)
class Plug:
    """One end of a cable."""

    link: str
    host: str
    interface: str
    """Its name on the host."""
    addresses: tuple[str, ...]
    mtu: int = 1500

    @property
    def hardware_address(self) -> str:
        """The same at every start, as a real one: others remember it."""
        return "02:" + ":".join(f"{byte:02x}" for byte in hashlib.sha256(self.port.encode()).digest()[:5])

    @property
    def port(self) -> str:
        """The other end of it, in the wires' space."""
        return f"{self.link}-{self.host}"


@dataclass
class Wires:
    """The links of a lab, and what was done to them."""

    space: Space
    plugs: tuple[Plug, ...]
    _touched: set[str] = field(default_factory=set)
    _relays: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def lay(self) -> None:
        """A bridge for every link; plugs come with ``plug_in``."""
        self._ip("link set lo up")
        for link in sorted({plug.link for plug in self.plugs}):
            self._ip(f"link add {link} type bridge forward_delay 0 mcast_snooping 0", f"link set {link} up")

    def plug_in(self, host: str, space: Space) -> None:
        """Connect a host that has just started."""
        for plug in self._of(host=host):  # a host that died takes its cables along, in the kernel's own time
            _network(self.space, "ip", "link", "del", plug.port, check=False)
        lines = ["link set lo up"]
        for plug in self._of(host=host):
            lines.append(
                f"link add {plug.interface} address {plug.hardware_address} mtu {plug.mtu} type veth "
                f"peer name {plug.port} mtu {plug.mtu} netns {self.space.pid}"
            )
            lines += [f"addr add {each} dev {plug.interface} nodad" for each in plug.addresses]
            lines.append(f"link set {plug.interface} up")
        _network(space, "ip", "-batch", "-", given="\n".join(lines))
        for plug in self._of(host=host):
            self._ip(f"link set {plug.port} master {plug.link} up")

    def unplug(self, link: str, host: str) -> None:
        """Pull one end: the host sees that the carrier is lost."""
        self._touched.add(link)
        self._ip(*(f"link set {plug.port} down" for plug in self._of(link, host)))

    def cut(self, link: str) -> None:
        """Pull every end of a link."""
        self._touched.add(link)
        self._ip(*(f"link set {plug.port} down" for plug in self._of(link)))

    def drop(self, link: str, host: str | None = None) -> None:
        """Lose every frame in silence: the carrier stays, no address answers, nothing is refused."""
        self._touched.add(link)
        self._ip(*(f"link set {plug.port} nomaster" for plug in self._of(link, host)))

    def rate(self, link: str, rate: str) -> None:
        """Let no more than this through in each direction, as ``tc`` writes it: ``50mbit``."""
        self._touched.add(link)
        for plug in self._of(link):
            _network(self.space, "tc", "qdisc", "replace", "dev", plug.port,
                     *f"root tbf rate {rate} burst 256kb latency 100ms".split())  # fmt: skip

    def delay(self, link: str, milliseconds: float, hosts: dict[str, Space], loss: float = 0.0) -> None:
        """Hold every frame for a while in each direction, and lose this share of them. For a link of two ends."""
        self._stop_relay(link)
        self._touched.add(link)
        ends = self._of(link)
        for plug in ends:
            # Frames come as they travel a cable: cut to size, with checksums.
            _offload(hosts[plug.host], plug.interface, "off")
            self._ip(f"link set {plug.port} nomaster promisc on")
        ports = [plug.port for plug in ends]
        relay = self.space.start(sys.executable, "-I", "-S", str(RELAY), *ports, str(milliseconds), str(loss))
        self._relays[link] = relay

    def shown(self, link: str) -> str:
        """What holds frames back on the way to each end of a link, as ``tc`` says it."""
        ports = (plug.port for plug in self._of(link))
        return "\n".join(_network(self.space, "tc", "-s", "qdisc", "show", "dev", port) for port in ports)

    def heal(self, hosts: dict[str, Space]) -> None:
        """Every cable as it was when it was new."""
        for link in sorted(self._touched):
            delayed = self._stop_relay(link)
            for plug in self._of(link):
                if plug.host not in hosts:
                    continue
                _network(self.space, "tc", "qdisc", "del", "dev", plug.port, "root", check=False)
                self._ip(f"link set {plug.port} promisc off master {plug.link} up")
                if delayed:
                    _offload(hosts[plug.host], plug.interface, "on")
        self._touched.clear()

    def _stop_relay(self, link: str) -> bool:
        relay = self._relays.pop(link, None)
        if relay is None:
            return False
        # What was started is nsenter, whose child is the relay.
        children = Path(f"/proc/{relay.pid}/task/{relay.pid}/children").read_text().split()
        subprocess.run(["kill", *children], check=False)
        relay.wait()
        return True

    def _of(self, link: str | None = None, host: str | None = None) -> list[Plug]:
        found = [plug for plug in self.plugs if link in {None, plug.link} and host in {None, plug.host}]
        if not found:
            raise LabError(f"no plug of link {link} at {host}")
        return found

    def _ip(self, *lines: str) -> None:
        _network(self.space, "ip", "-batch", "-", given="\n".join(lines))


def _network(space: Space, *argv: str, given: str = "", check: bool = True) -> str:
    """Run a command in a space's network alone, with this machine's files."""
    enter = ["nsenter", f"--target={space.pid}", "--net", "--", *argv]
    done = subprocess.run(enter, input=given, capture_output=True, text=True, check=False)
    if check and done.returncode != 0:
        raise LabError(f"{space.name}: {' '.join(argv)}: {done.stderr.strip()}\n{given}")
    return done.stdout


def _offload(space: Space, interface: str, state: str) -> None:
    words: Sequence[str] = [word for name in _OFFLOADS for word in (name, state)]
    _network(space, "ethtool", "-K", interface, *words)
