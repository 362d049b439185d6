"""cache-fits-context and state-fits-sequences: what is left holds the sequences that are asked for."""

from __future__ import annotations

from canserve.checks.case import Case
from canserve.checks.layout.deployed import deployed, gib, serving, tightest, within
from canserve.checks.reader import Check, NotApplicable, Reader
from canserve.memory.quantity import Quantity
from canserve.verdict import No, Unknown, Verdict, Yes


def context(reader: Reader, case: Case) -> Verdict:
    """The verdict of ``cache-fits-context``."""
    found = serving(reader, case)
    wanted = deployed(case).sequences
    most = found.max_context
    where, rank = tightest(case, found)
    left = f"{where} has {gib(rank.kv_available)} left for the cache"
    fewer = "spread it over more accelerators, or let the engine use more of the memory"
    if most.low >= 1:
        fewer = f"ask for a context of at most {int(most.low)} tokens, or spread it over more accelerators"
    if most.high < found.context:
        return No(f"{found.context} tokens do not fit: at most {int(most.value)} do; {left}", fewer)
    at_once = found.max_concurrency
    words = f"{_span(at_once, 1)} sequences of {found.context} tokens fit at once; {left}"
    if wanted > 1 and at_once.high < wanted:
        return No(words, f"ask for at most {max(int(at_once.low), 1)} at once, or for shorter ones")
    if most.low < found.context:
        return Unknown(
            f"{found.context} tokens may not fit: {_span(most)} do; {left}", f"start it once, or {fewer}"
        )
    if wanted > 1 and at_once.low < wanted:
        return Unknown(words, f"start it once, or ask for at most {int(at_once.low)} at once")
    return Yes(words)


def state(reader: Reader, case: Case) -> Verdict:
    """The verdict of ``state-fits-sequences``."""
    found = serving(reader, case)
    if not found.state_bytes_per_sequence:
        raise NotApplicable("the model keeps no state beside the cache")
    slots = found.state_slots
    if slots is not None and slots.low < found.sequences:
        words = (
            f"{_span(slots)} states fit, and the engine wants one for each of its {found.sequences} sequences"
        )
        fewer = f"set its limit of sequences to at most {int(slots.low)}"
        if slots.low < 1:
            fewer = "spread it over more accelerators, or let the engine use more of the memory"
        return (
            No(words, fewer) if slots.high < found.sequences else Unknown(words, f"start it once, or {fewer}")
        )
    wanted = deployed(case).sequences
    where, rank = tightest(case, found)
    need = Quantity.exact(found.state_bytes_per_sequence * wanted, "state of every sequence")
    return within(
        need,
        rank.kv_available,
        f"{where} keeps the state of {wanted} sequences",
        "ask for fewer sequences at once",
    )


def _span(amount: Quantity, digits: int = 0) -> str:
    low, value, high = (f"{each:.{digits}f}" for each in (amount.low, amount.value, amount.high))
    return value if low == high else f"{value} ({low} to {high})"


CONTEXT = Check(
    "cache-fits-context",
    "What is left of the memory holds the cache of as many sequences of the full context as are asked for.",
    context,
    needs_layout=True,
)
STATE = Check(
    "state-fits-sequences",
    "What is left of the memory holds the recurrent state of as many sequences as are asked for.",
    state,
    needs_layout=True,
)
