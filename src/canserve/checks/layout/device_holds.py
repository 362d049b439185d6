"""graphs-fit, start-memory-free and host-memory-holds: what is needed beside the engine's own budget."""

from __future__ import annotations

from canserve.checks.case import Case
from canserve.checks.layout.deployed import gib, placed, serving, tightest, within
from canserve.checks.reader import Check, NotApplicable, Reader
from canserve.memory.quantity import Quantity
from canserve.memory.request import RankMemory
from canserve.verdict import No, Unknown, Verdict, Yes

SAME = 1e-6
"""Shares of a memory that differ by less are one share of it: bytes are rounded down."""
LOWER = "let the engine use a smaller part of the memory"


def graphs(reader: Reader, case: Case) -> Verdict:
    """The verdict of ``graphs-fit``."""
    found = serving(reader, case)
    if all(rank.graphs.high <= 0 for rank in found.ranks):
        raise NotApplicable("no graphs are captured")
    where, rank = tightest(case, found)
    return within(_outside(rank), _beside(rank), f"{where} captures graphs beside the engine's budget", LOWER)


def _beside(rank: RankMemory) -> Quantity:
    """What the budget leaves; where it is a share of the total, that is known better than either."""
    why = "the accelerator's memory less the budget"
    whole, part = rank.total, rank.budget
    share = part.value / max(whole.value, 1)
    one_share = (
        max(abs(part.low - share * whole.low), abs(part.high - share * whole.high)) <= SAME * whole.value
    )
    return whole.beside(part, why) if one_share else whole.minus(part, why)


def _outside(rank: RankMemory) -> Quantity:
    """Graphs that the budget does not count: its parts and they together exceed it then."""
    parts = (rank.weights, rank.activation, rank.non_torch, rank.graphs, rank.kv_available)
    beyond = sum(part.value for part in parts) - rank.budget.value
    nothing = Quantity.exact(0, rank.graphs.why)
    return rank.graphs if beyond > rank.graphs.value / 2 > 0 else nothing


def start(reader: Reader, case: Case) -> Verdict:
    """The verdict of ``start-memory-free``."""
    reserve = serving(reader, case).starts
    if reserve.low >= 0:
        return Yes(f"{gib(reserve)} more are free than the engine demands at its start")
    short = Quantity(-reserve.value, -reserve.high, -reserve.low, reserve.why)
    if reserve.high < 0:
        return No(f"{gib(short)} less are free than the engine demands at its start", LOWER)
    return Unknown(
        f"{gib(reserve)} may be free beyond what the engine demands at its start: {reserve.why}",
        f"look at what is free on the machine, or {LOWER}",
    )


def host(reader: Reader, case: Case) -> Verdict:
    """The verdict of ``host-memory-holds``."""
    found = serving(reader, case)
    it = placed(case)
    if not any(device.unified for device in it.devices):
        raise NotApplicable("the accelerators have memory of their own; what the host has was not looked at")
    doubt: Verdict | None = None
    assert it.placement is not None
    for machine in dict.fromkeys(rank.machine for rank in it.placement.ranks):
        here = [at for at, rank in enumerate(it.placement.ranks) if rank.machine == machine]
        first = found.ranks[here[0]]
        if first.host is None:
            continue
        need = first.host
        for at in here:
            need = need.plus(found.ranks[at].budget, "the engine's budget and what the system needs")
        verdict = within(
            need, first.total, f"{machine} holds the engine's budget and the system in one memory", LOWER
        )
        if isinstance(verdict, No):
            return verdict
        if not isinstance(verdict, Yes) or doubt is None:
            doubt = verdict
    if doubt is None:
        raise NotApplicable("what the system needs of the shared memory is not known")
    return doubt


GRAPHS = Check(
    "graphs-fit",
    "The accelerator holds captured graphs beside everything else, where the engine's budget leaves them out.",
    graphs,
    needs_layout=True,
)
START = Check(
    "start-memory-free",
    "As much memory is free as the engine demands before it loads anything.",
    start,
    needs_layout=True,
)
HOST = Check(
    "host-memory-holds",
    "Where processor and accelerator share one memory, it holds the engine's budget and what the system needs.",
    host,
    needs_layout=True,
)
