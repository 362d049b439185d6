"""Network interfaces, the machine's own name, firewalls, and RDMA ports."""

from __future__ import annotations

import re
from dataclasses import replace
from ipaddress import ip_address

from canserve.facts import Cause, Fact, Known, Missing
from canserve.probes.host.probe import NOT_FOUND, Probe, Seen, tabular
from canserve.subjects.host import Interface, Listener, OwnName, RdmaGid, RdmaPort

_INTERFACES = r"""[ -d /sys/class/net ] || exit 1
for d in /sys/class/net/*; do
  [ -e "$d/mtu" ] || continue
  p=no; [ -e "$d/device" ] && p=yes
  value "$d/operstate"; o=$v; value "$d/speed"; s=$v; value "$d/mtu"
  printf '%s\t%s\t%s\t%s\t%s\n' "${d##*/}" "$o" "$s" "$v" "$p"
done; exit 0"""
_RDMA = r"""[ -d /sys/class/infiniband ] || exit 1
for p in /sys/class/infiniband/*/ports/*; do
  [ -d "$p" ] || continue
  d=${p%/ports/*}; d=${d##*/}; n=${p##*/}
  value "$p/state"; s=$v; value "$p/link_layer"; l=$v; value "$p/rate"; r=$v
  f=${p%/ports/*}/device; value "$f/numa_node"; m=$v
  a=$(readlink "$f" 2>/dev/null); printf 'port\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$d" "$n" "$s" "$l" "$r" "${a##*/}" "$m"
  for g in "$p"/gids/*; do
    value "$g"; a=$v
    case $a in ''|0000:0000:0000:0000:0000:0000:0000:0000) continue;; esac
    i=${g##*/}; value "$p/gid_attrs/types/$i"; t=$v; value "$p/gid_attrs/ndevs/$i"
    printf 'gid\t%s\t%s\t%s\t%s\n' "$i" "$a" "$t" "$v"
  done
done; exit 0"""
MAX_INTERFACES = 500
_PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_ZONES = re.compile(r"@.*$")


def interfaces(seen: Seen) -> Fact[tuple[Interface, ...]]:
    """All of them, without their addresses."""
    if seen.answer.status != 0:
        return seen.missing(Cause.UNAVAILABLE, "no /sys/class/net")
    found = []
    for row in seen.answer.text.splitlines()[:MAX_INTERFACES]:
        if not row.strip():
            continue
        if (cells := tabular(row, 5)) is None:
            return seen.unreadable("/sys/class/net")
        name, state, speed, mtu, physical = cells
        # A link that is down answers -1, or refuses to say.
        rate = int(speed) if re.fullmatch(r"[1-9]\d{0,8}", speed) else None
        size = int(mtu) if re.fullmatch(r"\d{1,6}", mtu) else None
        # Loopback and tunnels know no link, and say "unknown" while they are up.
        found.append(Interface(name, state in {"up", "unknown"}, rate, size, None, physical == "yes"))
    return seen.known(tuple(found), ", ".join(f"{i.name} {'up' if i.up else 'down'}" for i in found))


def addresses(seen: Seen) -> Fact[tuple[tuple[str, str], ...]]:
    """Interface and address with its prefix length."""
    if seen.answer.status == NOT_FOUND:
        return seen.missing(Cause.UNAVAILABLE, "no ip command: addresses are not told")
    if seen.answer.status != 0:
        return seen.failed("ip")
    found = re.findall(r"^\d+:\s+(\S+)\s+inet6?\s+(\S+)", seen.answer.text, re.MULTILINE)
    return seen.known(tuple((_ZONES.sub("", name), address) for name, address in found))


def with_addresses(
    found: Fact[tuple[Interface, ...]], told: Fact[tuple[tuple[str, str], ...]]
) -> Fact[tuple[Interface, ...]]:
    """Each interface with its addresses."""
    if isinstance(found, Missing) or isinstance(told, Missing):
        return found
    both = tuple(
        replace(i, addresses=tuple(a for name, a in told.value if name == i.name)) for i in found.value
    )
    return Known(both, (*found.evidence, *told.evidence))


def rdma(seen: Seen) -> Fact[tuple[RdmaPort, ...]]:
    """Every port with its addresses; none where the kernel knows no RDMA device."""
    if seen.answer.status != 0:
        return seen.known((), "no /sys/class/infiniband")
    found: list[RdmaPort] = []
    for row in seen.answer.text.splitlines():
        match row.split("\t"):
            case ["port", device, port, state, layer, rate, pci, numa] if port.isdigit():
                state = state.split(":")[-1].strip()
                # Systems with one node say -1.
                node = int(numa) if re.fullmatch(r"\d{1,3}", numa) else None
                one = RdmaPort(device, int(port[:4]), state, layer.strip(), rate.strip(), ())
                found.append(replace(one, pci=_PCI.fullmatch(pci) and pci, node=node))
            case ["gid", index, gid, kind, interface] if found and index.isdigit():
                address = RdmaGid(int(index[:5]), gid, kind.strip(), interface.strip() or None)
                found[-1] = replace(found[-1], gids=(*found[-1].gids, address))
            case [""]:
                continue
            case _:
                return seen.unreadable("/sys/class/infiniband")
    said = ", ".join(f"{port.device} port {port.port} {port.state}" for port in found)
    return seen.known(tuple(found), said or "no port")


def rdma_nodes(seen: Seen) -> Fact[tuple[str, ...]]:
    """Files of ``/dev/infiniband``."""
    rows = tuple(seen.rows[:MAX_INTERFACES]) if seen.answer.status == 0 else ()
    return seen.known(rows, None if rows else "no /dev/infiniband")


def own_name(seen: Seen) -> Fact[OwnName]:
    """The name, and what it stands for on the machine itself."""
    rows = seen.rows
    if not rows or not re.fullmatch(r"[A-Za-z0-9_.-]{1,255}", rows[0]):
        return seen.failed("hostname")
    found = dict.fromkeys(row.split()[0] for row in rows[1:])
    return seen.known(OwnName(rows[0], tuple(a for a in found if re.fullmatch(r"[0-9A-Fa-f:.%a-z]+", a))))


def listening(seen: Seen) -> Fact[tuple[Listener, ...]]:
    """The kernel's own list: addresses in hexadecimal, each four bytes in the machine's order; state 0A listens."""
    if seen.answer.status != 0:
        return seen.missing(Cause.UNAVAILABLE, "no /proc/net/tcp")
    found = set()
    for row in seen.rows:
        if row.startswith("sl "):
            continue
        match = re.match(
            r"\d+: ([0-9A-F]{8}|[0-9A-F]{32}):([0-9A-F]{4}) [0-9A-F]+:[0-9A-F]{4} ([0-9A-F]{2}) ", row
        )
        if match is None:
            return seen.unreadable("/proc/net/tcp")
        if match[3] == "0A":
            found.add((int(match[2], 16), _address(match[1])))
    listeners = tuple(Listener(port, address) for port, address in sorted(found))
    return seen.known(listeners, ", ".join(map(str, listeners)) or "nothing listens")


def _address(text: str) -> str:
    """All machines that serve models are little-endian."""
    words = (bytes.fromhex(text[at : at + 8])[::-1] for at in range(0, len(text), 8))
    return str(ip_address(b"".join(words)))


def firewall(seen: Seen) -> Fact[tuple[str, ...]]:
    """Names of firewall services that are switched on."""
    rows = seen.rows
    if not rows or rows[-1] != "end":
        return seen.failed("systemctl")
    if "nothing" in rows:
        return seen.missing(Cause.UNAVAILABLE, "no systemctl and no ufw: which firewall runs is not told")
    return seen.known(tuple(rows[:-1]), ", ".join(rows[:-1]) or "no firewall service is active")


INTERFACES = Probe(
    "interfaces", _INTERFACES, "/sys/class/net/*/{operstate,speed,mtu}", interfaces, quick=True
)
ADDRESSES = Probe("addresses", "ip -o addr show", "ip -o addr show", addresses, quick=True)
RDMA = Probe("rdma", _RDMA, "/sys/class/infiniband/*/ports/*", rdma, limit=400_000, quick=True)
RDMA_NODES = Probe(
    "rdma_nodes",
    "[ -d /dev/infiniband ] || exit 1; ls /dev/infiniband",
    "/dev/infiniband",
    rdma_nodes,
    quick=True,
)
OWN_NAME = Probe(
    "own_name",
    'n=$(hostname 2>/dev/null || uname -n); echo "$n"; within 5 getent ahosts "$n"; exit 0',
    "getent ahosts $(hostname)",
    own_name,
)
LISTENING = Probe(
    "listening",
    "cat /proc/net/tcp || exit 1; [ ! -e /proc/net/tcp6 ] || cat /proc/net/tcp6",
    "/proc/net/tcp, /proc/net/tcp6",
    listening,
    limit=2_000_000,
)
FIREWALL = Probe(
    "firewall",
    "c=; command -v systemctl >/dev/null 2>&1 && [ -d /run/systemd/system ] && c=1\n"
    '[ -n "$c" ] && for s in ufw firewalld nftables; do\n'
    '  [ "$(within 5 systemctl is-active $s 2>/dev/null)" = active ] && echo $s\n'
    "done\n"
    '[ -n "$c" ] || [ -e /etc/ufw/ufw.conf ] || echo nothing\n'
    "[ -n \"$c\" ] || { grep -qs '^ENABLED=yes' /etc/ufw/ufw.conf && echo ufw; }\n"
    "echo end",
    "systemctl is-active ufw firewalld nftables",
    firewall,
)
