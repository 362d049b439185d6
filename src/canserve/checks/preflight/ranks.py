"""Whether all ranks start, meet, connect and compute the right thing; each stops where the one before did not pass."""

from __future__ import annotations

from canserve.checks.preflight.question import PreflightCheck, only_after, passed, standing, where
from canserve.checks.reader import NotApplicable, Reader
from canserve.subjects.cluster import Cluster
from canserve.subjects.preflight import PHASES, Preflight
from canserve.verdict import No, Unknown, Verdict, Yes


def _start(reader: Reader, cluster: Cluster, flight: Preflight) -> Verdict:
    del reader, cluster
    bad = [r for r in flight.ranks if PHASES.index(r.phase) < PHASES.index("store")]
    if failed := tuple(r for r in bad if r.state in {"failed", "stalled"}):
        return No(where(failed), "make torch start there: the last words above say what it lacks")
    if bad:
        return Unknown(
            where(tuple(bad)), "run it again: the connection to that machine ended before its rank"
        )
    kinds = {
        f"torch {r.told.get('torch', '?')} on {r.told.get('name', 'the processor')}" for r in flight.ranks
    }
    versions = {r.told.get("torch") for r in flight.ranks}
    if len(versions) > 1:
        return No(
            f"the ranks have different releases of torch: {', '.join(sorted(kinds))}",
            "use the same environment or image on every machine",
        )
    return Yes(f"{len(flight.ranks)} ranks with {', '.join(sorted(kinds))}")


def _meet(reader: Reader, cluster: Cluster, flight: Preflight) -> Verdict:
    del reader, cluster
    _several(flight)
    only_after(flight, "device", "ranks-start")
    if passed(flight, "meet"):
        return Yes(f"all of them met at {flight.master}")
    outside = tuple(r for r in standing(flight) if r.phase == "store")
    if outside and all(r.state == "cut" for r in outside):
        return _open(flight)
    if any(r.number == 0 and r.state != "cut" for r in outside):
        why = f"rank 0 could not open the store at {flight.master}: {where(outside[:1])}"
        return No(why, "free that port, or let the ranks meet at an address of that machine")
    if outside:
        names = ", ".join(f"rank {r.number} ({r.node})" for r in outside)
        why = f"{names} cannot reach the store at {flight.master} on {flight.node(0)}, where the others wait"
        return No(why, helped(flight) or f"let TCP connections to {flight.master} pass")
    return _open(flight)


def _connect(reader: Reader, cluster: Cluster, flight: Preflight) -> Verdict:
    del reader, cluster
    _several(flight)
    only_after(flight, "meet", "ranks-meet")
    if passed(flight, "first"):
        return Yes(f"{flight.backend} connected them, and the first collective passed")
    still = [r for r in standing(flight) if PHASES.index(r.phase) <= PHASES.index("first")]
    blocked = [
        f"{r.node} cannot reach {_place(flight, other)} ({how})"
        for r in flight.ranks
        for other, how in r.reached.items()
        if how != "ok"
    ]
    if all(r.state == "cut" for r in still):
        return _open(flight)
    stands = f"they stand in {still[0].phase.replace('first', 'the first collective')}: {where(tuple(still))}"
    why = f"{'; '.join(blocked[:4])}; {stands}" if blocked else stands
    fix = "name the right interface for both, or let all TCP ports pass between these machines"
    return No(why, helped(flight) or fix)


def _place(flight: Preflight, number: int) -> str:
    found = next((r for r in flight.ranks if r.number == number), None)
    at = f" at {found.address}, chosen by {found.interface}" if found and found.address else ""
    return f"rank {number} on {flight.node(number)}{at}"


def _right(reader: Reader, cluster: Cluster, flight: Preflight) -> Verdict:
    del reader, cluster
    _several(flight)
    only_after(flight, "first", "ranks-connect")
    if wrong := [str(m) for m in flight.measures if not m.right]:
        return No(
            f"wrong results: {', '.join(wrong[:3])}",
            helped(flight) or "try NCCL_P2P_DISABLE=1, then the memory",
        )
    if still := standing(flight):
        if all(r.state == "cut" for r in still):
            return _open(flight)
        return No(
            where(still), helped(flight) or "look at packet sizes (MTU) and losses between these machines"
        )
    largest = max((m.size for m in flight.measures if m.op == "all_reduce"), default=None)
    return Yes(f"all results are right, up to {largest or 'the smallest'}")


def _several(flight: Preflight) -> None:
    if len(flight.ranks) < 2:
        raise NotApplicable("one rank has nobody to talk to")


def _open(flight: Preflight) -> Verdict:
    return Unknown(where(standing(flight)), "run it again: it is not known why they ended")


def helped(flight: Preflight) -> str | None:
    """What the repetitions with one change say, as advice; None: nothing was tried, or nothing helped."""
    healed = [trial for trial in flight.trials if trial.healed]
    if not healed:
        return None
    names = " and ".join(f"rank {n} on {flight.node(n)}" for n in healed[0].ranks)
    if healed[0].change == "nothing":
        if len(flight.ranks) == 2:
            return f"run it again: {names} pass when they are tried again with nothing changed"
        return f"look at the other ranks: {names} alone pass with nothing changed"
    how = ", or ".join(trial.change for trial in healed)
    return f"change this, with which {names} pass: {how}"


START = PreflightCheck(
    "ranks-start",
    "In the environment or image, torch starts on every machine and sees the device of each rank.",
    _start,
)
MEET = PreflightCheck(
    "ranks-meet", "Every rank reaches the store of the first one, and all of them are there.", _meet
)
CONNECT = PreflightCheck(
    "ranks-connect", "The ranks connect to each other, and the first collective passes.", _connect
)
RIGHT = PreflightCheck(
    "collectives-right",
    "All-reduce, broadcast, send and receive come to their end at every size, with the right result.",
    _right,
)
