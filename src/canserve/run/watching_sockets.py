"""The connections of a deployment's own processes, from the kernel's tables."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address

from canserve.checks.diagnosis.log import Socket
from canserve.commands import watching
from canserve.probes.live import Way, asked
from canserve.run.looking import WIDTH
from canserve.run.watching_look import Eyes, Sight
from canserve.transport.frames import Answer, Section
from canserve.transport.reach import Limits
from canserve.trees.fanout import fanout

_STATES = {"01": "ESTAB", "02": "SYN-SENT", "0A": "LISTEN"}
_PIDS = 64
_BYTES = 512_000


def connections(eyes: Eyes, sight: Sight) -> tuple[tuple[Socket, ...], frozenset[str]]:
    """Sockets of every machine's processes, and the machines whose tables were seen."""
    of: dict[str, list[int]] = {}
    for number, pids in sight.pids.items():
        of.setdefault(eyes.deployment.processes[number].host, []).extend(pids)
    names = [name for name, pids in of.items() if pids and name in eyes.nodes]

    def look(name: str) -> tuple[Socket, ...] | None:
        section = Section("sockets", watching.sockets(of[name][:_PIDS]), _BYTES)
        found = asked(eyes.nodes[name], eyes.nodes, (section,), Way(), Limits(whole=20)).answers.get(
            "sockets"
        )
        return tuple(understood(name, found)) if found is not None else None

    looks = dict(zip(names, fanout(look, names, WIDTH), strict=True))
    seen = frozenset(name for name, found in looks.items() if found is not None)
    return tuple(socket for found in looks.values() for socket in found or ()), seen


def understood(machine: str, found: Answer) -> Iterator[Socket]:
    """Those that one of the processes holds."""
    mine: set[str] = set()
    table: dict[str, tuple[str, str, str]] = {}
    for line in found.text.splitlines():
        match line.split():
            case ["fd", _, inode]:
                mine.add(inode)
            case ["tcp", local, peer, state, inode] if state in _STATES:
                table[inode] = (_STATES[state], local, peer)
            case _:
                pass
    for inode, (state, local, peer) in table.items():
        ends = _end(local), _end(peer)
        if inode in mine and None not in ends:
            yield Socket(machine, state, str(ends[0]), str(ends[1]))


def _end(text: str) -> str | None:
    """``0100007F:1F40`` as ``127.0.0.1:8000``: words of the kernel's own byte order, the port in the network's."""
    address, _, port = text.partition(":")
    try:
        words = [bytes.fromhex(address[at : at + 8])[::-1] for at in range(0, len(address), 8)]
        ip = ip_address(b"".join(words))
        number = int(port, 16)
    except ValueError:
        return None
    mapped = getattr(ip, "ipv4_mapped", None)
    shown = str(mapped or ip)
    return f"[{shown}]:{number}" if ":" in shown else f"{shown}:{number}"
