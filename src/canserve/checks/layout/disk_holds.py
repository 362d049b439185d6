"""disk-holds: every machine's disk holds the weights."""

from __future__ import annotations

from canserve.checks.case import Case
from canserve.checks.layout.deployed import placed
from canserve.checks.machine.stated import read_stated
from canserve.checks.reader import Check, NotApplicable, Reader
from canserve.facts import Known
from canserve.memory.weights.implied import implied
from canserve.units import Bytes
from canserve.verdict import No, Verdict, Yes


def run(reader: Reader, case: Case) -> Verdict:
    """The verdict of ``disk-holds``, of the machine with the least."""
    it = placed(case)
    assert it.placement is not None
    used = {rank.machine for rank in it.placement.ranks}
    hosts = [host for host in it.layouts.question.hosts if host.name in used]
    free = [
        (read_stated(reader, host.machine.disk, "state disk in a cluster file"), host.name) for host in hosts
    ]
    room, where = min(free)
    need = _weights(reader, case)
    words = f"the weights take {Bytes(need)}, and {where} has {room} free"
    if need > room.count:
        return No(words, f"free {Bytes(need - room.count)}, or read the weights from shared storage")
    return Yes(words)


def _weights(reader: Reader, case: Case) -> int:
    """Bytes of all weight files, from their headers or else as the config implies."""
    stored = case.model.parameters
    if isinstance(stored, Known):
        return reader.read(stored).bytes
    tensors = implied(case.model)
    if not isinstance(tensors, Known):
        raise NotApplicable(f"{tensors.why}: see weights-fit")
    return sum(tensor.bytes for tensor in reader.read(tensors))


CHECK = Check(
    "disk-holds",
    "The disk of every machine has room for the weights.",
    run,
    needs_layout=True,
)
