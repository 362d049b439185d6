"""disk-holds: every machine's disk holds the weights."""

from __future__ import annotations

from canserve.checks.case import Case
from canserve.checks.layout.deployed import placed
from canserve.checks.machine.stated import read_stated
from canserve.checks.reader import Check, NotApplicable, Reader
from canserve.facts import Cause, Fact, Known, Missing, derive
from canserve.memory.remembered import per_model
from canserve.memory.weights.implied import implied
from canserve.subjects.host import CachedModel
from canserve.subjects.machine import NOT_LOOKED, Machine
from canserve.subjects.model import Model
from canserve.units import Bytes
from canserve.verdict import No, Unknown, Verdict, Yes


def run(reader: Reader, case: Case) -> Verdict:
    """The verdict of ``disk-holds``, of the machine with the least."""
    it = placed(case)
    assert it.placement is not None
    used = {rank.machine for rank in it.placement.ranks}
    hosts = [host for host in it.layouts.question.hosts if host.name in used]
    lying = {host.name: _lying(reader, case, host.machine) for host in hosts}
    if all(isinstance(model, CachedModel) and model.complete for model in lying.values()):
        return Yes(f"the weights lie in the Hub cache of {', '.join(lying)} already")
    need = _weights(reader, case)
    short = [
        (read_stated(reader, host.machine.disk, "state disk in a cluster file").count - rest, host.name, rest)
        for host in hosts
        if (rest := _rest(need, lying[host.name])) > 0
    ]
    room, where, rest = min(short, default=(0, "", 0))
    words = f"the weights take {Bytes(rest)}, and {where} has {Bytes(room + rest)} free"
    if room >= 0:
        return Yes(words if short else "the weights lie on every machine already")
    if isinstance(lying[where], Missing):
        return Unknown(
            f"{words}; whether they lie on it already was not read", "say where they lie, or free the room"
        )
    return No(words, f"free {Bytes(-room)}, or read the weights from shared storage")


def _lying(reader: Reader, case: Case, machine: Machine) -> CachedModel | Missing | None:
    """What a machine's Hub cache holds of the model; None: nothing, or nobody looked. Missing: it cannot be told."""
    cache = machine.cached_models
    if cache is NOT_LOOKED:
        return None
    if case.model.origin != "hub":
        return Missing(Cause.UNAVAILABLE, "where the files lie on the machine was not read")
    if isinstance(cache, Missing):
        reader.cite(cache.evidence)
        return cache
    name = case.model.subject.split("@")[0].lower()
    return next((model for model in reader.read(cache) if model.name.lower() == name), None)


def _rest(need: int, lying: CachedModel | Missing | None) -> int:
    """Bytes that are still to come."""
    if not isinstance(lying, CachedModel):
        return need
    there = 0 if lying.bytes is None else lying.bytes.count
    return 0 if lying.complete else max(need - there, 0)


def _weights(reader: Reader, case: Case) -> int:
    """Bytes of all weight files, from their headers or else as the config implies."""
    stored = case.model.parameters
    if isinstance(stored, Known):
        return reader.read(stored).bytes
    size = implied_bytes(case.model)
    if isinstance(size, Missing):
        raise NotApplicable(f"{size.why}: see weights-fit")
    return reader.read(size)


@per_model
def implied_bytes(model: Model) -> Fact[int]:
    """Of many thousand tensors, for every plan of the model."""
    return derive(implied(model), lambda tensors: sum(tensor.bytes for tensor in tensors))


CHECK = Check(
    "disk-holds",
    "The disk of every machine has room for the weights.",
    run,
    needs_layout=True,
)
