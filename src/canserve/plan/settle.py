"""Settings that nobody asked for, chosen so that a deployment starts and holds at least one request."""

from __future__ import annotations

from dataclasses import replace

from canserve.engines.starting import option_names
from canserve.facts import Fact, Known, Missing
from canserve.memory.quantity import GIB
from canserve.memory.request import RankMemory, Serving
from canserve.plan.candidate import Candidate

STEP = 1024
"""A context that is chosen is a multiple of this."""
SEQUENCES = 256
"""Every engine runs so many at once unasked; more have to be asked for."""
LEAST = 0.3
"""A smaller share of the memory is never chosen: then something else is wrong."""


def settled(it: Candidate) -> tuple[Candidate, Fact[Serving], tuple[str, ...]]:
    """The candidate with its open settings chosen, what it holds then, and a note for each choice."""
    names = option_names(it.judged.engine)
    notes = []
    if it.wishes.context is not None and "context" in names:
        it = _with(it, names["context"], it.wishes.context)
    if (it.wishes.concurrency or 0) > SEQUENCES and "sequences" in names:
        it = _with(it, names["sequences"], it.wishes.concurrency)
        it = _stepped(it, names.get("step"))
    serving = it.serving()
    for choose in (_utilisation, _sequences, _context):
        if isinstance(serving, Missing):
            break
        it, note = choose(it, serving.value)
        if note:
            notes.append(note)
            serving = it.serving()
    return it, serving, tuple(notes)


def _stepped(it: Candidate, name: str | None) -> Candidate:
    """With steps of a token for each sequence, where the engine's default step is smaller and refuses that."""
    if name is None or isinstance(it.serving(), Known):
        return it
    wider = _with(it, name, it.wishes.concurrency)
    return wider if isinstance(wider.serving(), Known) else it


def _with(it: Candidate, name: str, value: object) -> Candidate:
    """An option that is not set yet."""
    return it if name in it.options else replace(it, options={**it.options, name: value})


def _utilisation(it: Candidate, serving: Serving) -> tuple[Candidate, str]:
    """The largest share of the memory with which the engine surely starts, where its default may not.

    Left alone where the smaller share could no longer hold a request: then only the default might do.
    """
    name = option_names(it.judged.engine).get("utilisation")
    if name is None or name in it.options:
        return it, ""
    budget = min(rank.budget.value for rank in serving.ranks)
    room = min(budget + serving.starts.low, *(_room(rank) for rank in serving.ranks))
    share = int(room / max(rank.total.value for rank in serving.ranks) * 100) / 100
    least = min(rank.kv_available.low + share * rank.total.low - rank.budget.high for rank in serving.ranks)
    if room >= budget or share < LEAST or least <= serving.state_bytes_per_sequence:
        return it, ""
    note = (
        f"{name} {share} is chosen: the default asks for {budget / GIB:.1f} GiB, "
        f"and {room / GIB:.1f} GiB are sure to be there"
    )
    return _with(it, name, share), note


def _room(rank: RankMemory) -> float:
    """Bytes that surely remain beside the host's part of shared memory, and graphs outside the budget."""
    parts = (rank.weights, rank.activation, rank.non_torch, rank.graphs, rank.kv_available)
    outside = sum(part.value for part in parts) - rank.budget.value > rank.graphs.value / 2 > 0
    host = rank.host.high if rank.host is not None else 0.0
    return rank.total.low - host - (rank.graphs.high if outside else 0.0)


def _sequences(it: Candidate, serving: Serving) -> tuple[Candidate, str]:
    """As many sequences at once as have room for their state, where the engine wants room for more.

    As surely have it; where none surely has, as are expected to.
    """
    name, slots = option_names(it.judged.engine).get("sequences"), serving.state_slots
    if name is None or name in it.options or slots is None or slots.low >= serving.sequences:
        return it, ""
    fit = int(slots.low) or int(slots.value)
    count = fit // 8 * 8 or fit
    if count < max(it.wishes.concurrency or 1, 1):
        return it, ""
    note = f"{name} {count} is chosen: the default is {serving.sequences}, and {fit} states fit"
    return _with(it, name, count), note


def _context(it: Candidate, serving: Serving) -> tuple[Candidate, str]:
    """The longest context that surely fits, where the model's own does not."""
    name = option_names(it.judged.engine).get("context")
    if name is None or name in it.options or serving.max_context.low >= serving.context:
        return it, ""
    length = int(serving.max_context.low) // STEP * STEP
    if length < STEP:
        return it, ""
    return _with(
        it, name, length
    ), f"{name} {length} is chosen: the model's {serving.context} tokens do not fit"
