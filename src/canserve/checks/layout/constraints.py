"""Checks whether a layout is legal: the constraints of ``layout``, one check each, by the same names."""

from __future__ import annotations

from collections.abc import Callable

from canserve.checks.case import Case
from canserve.checks.layout.deployed import deployed
from canserve.checks.reader import Check, NotApplicable, Reader
from canserve.layout import replicas, stages
from canserve.layout.judged import CONSTRAINTS, ROOM
from canserve.layout.place import Room
from canserve.layout.ruling import Constraint
from canserve.verdict import Unknown, Verdict, Yes

ALREADY = frozenset({stages.SUPPORTED.name})
"""Checks of this name judge a build with or without a layout."""


def _judge(constraint: Constraint) -> Callable[[Reader, Case], Verdict]:
    def run(reader: Reader, case: Case) -> Verdict:
        found = deployed(case)
        ruling = found.layouts.ruling(constraint, found.parallel)
        if ruling is None:
            raise NotApplicable("the layout does not cut this")
        by_tp = "tp" in constraint.axes and constraint.tensor
        healed = found.layouts.healed(found.parallel, ruling) if by_tp else ruling
        reader.cite(healed.evidence)
        if constraint is replicas.DATA and isinstance(healed.verdict, Yes) and found.placement is not None:
            for _, doubt in replicas.straddling(found.layouts.question, found.placement):
                return doubt
        return healed.verdict

    return run


def _room(reader: Reader, case: Case) -> Verdict:
    found = deployed(case)
    room = found.layouts.room(found.parallel)
    if not isinstance(room, Room):
        reader.cite(room.evidence)
        return room.verdict
    for host in found.layouts.question.hosts:
        reader.cite(host.machine.gpus.evidence)
    ranks = found.parallel.ranks
    if ranks > 1 and any(not host.stated for host in found.layouts.question.hosts):
        return Unknown(
            f"it takes {ranks} accelerators, and how many the machines have is not stated",
            "state how many accelerators the machines have (gpus in a cluster file)",
        )
    return Yes(f"{ranks} of {found.layouts.question.gpus} accelerators are taken")


CHECKS = (
    *(
        Check(constraint.name, constraint.claim, _judge(constraint), needs_layout=True)
        for constraint in CONSTRAINTS
        if constraint.name not in ALREADY
    ),
    Check(
        ROOM,
        "The machines have that many accelerators, in the shares that the engine needs.",
        _room,
        needs_layout=True,
    ),
)
