"""``adopt``: another operator takes a deployment over, into a journal of his own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from canserve.api import Options, SpecError
from canserve.api.described import as_told
from canserve.api.preparing import operator
from canserve.api.running import Found, Sought, one_of
from canserve.commands import claims
from canserve.plan.steps.step import Step
from canserve.run.executing import Failure, Hands, carry_out, now
from canserve.store.journal import Event, Journal


@dataclass(frozen=True, slots=True)
class Adopted:
    """What was taken over."""

    found: Found
    """As it is now, with its entry in this journal."""
    before: str
    """Who had it."""
    left: tuple[Failure, ...] = ()
    """Machines on which it could not be written down."""


def adopt(
    sought: Sought,
    journal: Journal,
    tell: Callable[[str], None] = lambda _: None,
    options: Options | None = None,
) -> Adopted:
    """Take over a deployment that machines hold: from now on this journal knows it. Nothing that runs is touched.

    Every machine gets a line of audit. Doing it again is no error. Raises SpecError where nothing of it is there.
    """
    if not sought.on:
        raise SpecError("where it runs is not said", "name its machines with --on")
    found = one_of(sought, journal, options)
    if not any(each.claims or each.running or each.described for each in found.seen):
        raise SpecError(
            f"nothing of {found.run} is on {', '.join(sought.on)}",
            "canserve status --on MACHINE shows what is",
        )
    told = {**as_told(found), "adopted": found.operator}
    if found.entry is None:
        journal.begin(found.run, now(), told)
    else:
        journal.retell(found.run, {**found.entry.told, **{name: told[name] for name in _PLACES}})
    journal.settle(found.run, "up" if found.word == "running" else "starting", "adopted")
    line = _line(found)
    journal.tell(Event(str(told["story"]), found.run, now(), "adopted", line))
    steps = audit_steps(found, line)
    hands = Hands(found.run, {node.name: node for node in found.nodes}, journal, tell=tell)
    left = carry_out(steps, "adopt", hands)
    return Adopted(replace(found, entry=journal.run(found.run)), found.operator, left)


def audit_steps(found: Found, line: str = "") -> tuple[Step, ...]:
    """What is run on machines: each notes who took it over."""
    text = line or _line(found)
    return tuple(
        Step("audit", name, claims.note(found.state, text), 0, f"{found.state} cannot be written")
        for name in found.held
    )


def _line(found: Found) -> str:
    before = found.operator or "nobody known"
    return f"{operator()} {datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} adopt {found.run} from {before}"


_PLACES = ("machines", "held", "state", "program")
"""What whoever looks now knows better than what the journal had."""
