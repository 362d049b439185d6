"""Rules of the kernel's packet filter that turn away what comes in, as far as this user may see them."""

from __future__ import annotations

import re

from canserve.facts import Cause, Fact
from canserve.probes.host.probe import LATE, Probe, Seen

MAX_RULES = 100
_HIDDEN = re.compile(r"not permitted|must be root|permission denied", re.IGNORECASE)
_AWAY = re.compile(r"\b(drop|reject)\b")
_JUMP = re.compile(r"\b(?:jump|goto)\s+(\S+)")
# The older filter is asked only where the kernel has it loaded: to ask would load it.
_SCRIPT = (
    "k=\n"
    "if command -v nft >/dev/null 2>&1; then k=1; echo nft; within 5 nft -n list ruleset || exit; fi\n"
    "if grep -qs filter /proc/net/ip_tables_names && command -v iptables >/dev/null 2>&1; then\n"
    "  k=1; echo; echo iptables; within 5 iptables -S || exit\n"
    "fi\n"
    '[ -n "$k" ] || exit 3\n'
    "echo; echo end"
)


def firewall_rules(seen: Seen) -> Fact[tuple[str, ...]]:
    """Each rule with its chain: ``inet filter input: policy drop``."""
    text = seen.answer.text
    if seen.answer.status == 3:
        return seen.missing(
            Cause.UNAVAILABLE, "no nft and no iptables: rules of the packet filter are not told"
        )
    if seen.answer.status != 0 and _HIDDEN.search(seen.answer.error + text):
        why = "only a privileged user may see the rules of the packet filter"
        return seen.missing(
            Cause.UNAVAILABLE, why, "try the ports themselves: canserve machine CLUSTER --links"
        )
    if seen.answer.status in LATE or seen.answer.status != 0:
        return seen.failed("nft")
    if not seen.rows or seen.rows[-1] != "end":
        return seen.unreadable("nft list ruleset")
    nft, _, iptables = text.partition("\niptables\n")
    found = (*_nft(nft), *_iptables(iptables))
    return seen.known(found[:MAX_RULES], "; ".join(found[:3]) or "no rule turns anything away")


def _nft(text: str) -> tuple[str, ...]:
    """Rules of chains that see what comes in, and of those that they lead to."""
    table, chain = "", ""
    chains: dict[str, list[str]] = {}
    entered: list[str] = []
    for row in map(str.strip, text.splitlines()):
        if match := re.match(r"table (\S+ \S+) \{", row):
            table = match[1]
        elif match := re.match(r"chain (\S+) \{", row):
            chain = f"{table} {match[1]}"
            chains[chain] = []
        elif chain and row and row != "}":
            chains[chain].append(row)
            if "hook input" in row:
                entered.append(chain)
    found: list[str] = []
    done: set[str] = set()
    while entered:
        name = entered.pop(0)
        if name in done:
            continue
        done.add(name)
        for row in chains.get(name, ()):
            family = name.rpartition(" ")[0]
            entered += [f"{family} {to}" for to in _JUMP.findall(row)]
            if "hook input" in row:
                found += [f"{name}: policy drop"] if "policy drop" in row else []
            elif _AWAY.search(row):
                found.append(f"{name}: {row[:160]}")
    return tuple(found)


def _iptables(text: str) -> tuple[str, ...]:
    """Policy and rules of INPUT, and of the chains that it leads to."""
    rows = [row.strip() for row in text.splitlines()]
    reached = {"INPUT"}
    for _ in range(8):  # chains lead to chains
        for row in rows:
            if (match := re.match(r"-A (\S+) .*-[jg] (\S+)", row)) and match[1] in reached:
                reached.add(match[2])
    found = []
    for row in rows:
        if row in {"-P INPUT DROP", "-P INPUT REJECT"}:
            found.append("INPUT: policy drop")
        elif (match := re.match(r"-A (\S+) (.*)-j (?:DROP|REJECT)\b", row)) and match[1] in reached:
            found.append(f"{match[1]}: {row[:160]}")
    return tuple(found)


FIREWALL_RULES = Probe(
    "firewall_rules", _SCRIPT, "nft list ruleset, iptables -S", firewall_rules, limit=400_000
)
