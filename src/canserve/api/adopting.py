"""``adopt``: another operator takes a deployment over, into a journal of his own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from canserve.api import Options, SpecError
from canserve.api.described import as_told
from canserve.api.preparing import operator
from canserve.api.running import Found, Sought, one_of
from canserve.commands import claims
from canserve.plan.steps.describing import written
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

    Every machine gets a line of audit, and its claims and what it says of the run name who has it now. Doing it again
    is no error. Raises SpecError where nothing of it is there.
    """
    if not sought.on:
        raise SpecError("where it runs is not said", "name its machines with --on")
    found = one_of(sought, journal, options)
    if not any(each.claims or each.running or each.described for each in found.seen):
        raise SpecError(
            f"nothing of {found.run} is on {', '.join(sought.on)}",
            "canserve status --on MACHINE shows what is",
        )
    who = _who()
    told = as_told(found)
    untold = {name: value for name, value in found.described.items() if not told.get(name)}
    told |= {**untold, "operator": who, "adopted": found.operator}
    if found.entry is None:
        journal.begin(found.run, now(), told)
    else:
        journal.retell(found.run, told)
    journal.settle(found.run, "up" if found.word == "running" else "starting", "adopted")
    journal.tell(Event(str(told["story"]), found.run, now(), "adopted", _line(found, who)))
    hands = Hands(found.run, {node.name: node for node in found.nodes}, journal, tell=tell)
    left = carry_out(adopting_steps(found, who), "adopt", hands)
    return Adopted(one_of(replace(sought, run=found.run), journal, options), found.operator, left)


def adopting_steps(found: Found, who: str = "") -> tuple[Step, ...]:
    """What is run on machines: each notes who took it over, and from then on names whoever that is."""
    return tuple(_steps(found, who or _who()))


def _steps(found: Found, who: str) -> Iterator[Step]:
    state, run = found.state, found.run
    there = {each.machine: each for each in found.seen}
    for name in found.held:
        yield Step("audit", name, claims.note(state, _line(found, who)), 0, f"{state} cannot be written")
        seen = there.get(name)
        for claim in () if seen is None else seen.claims:
            argv = claims.take_over(state, claim.name, run, claims.said(run, claim.program, who))
            yield Step("claim", name, argv, 0, f"the claim on {claim.name} could not be taken over")
        for one in () if seen is None else seen.described:
            argv = claims.describe_anew(state, run, written(replace(one, operator=who)))
            yield Step("describe", name, argv, 0, f"{state}/{run}.json cannot be written")


def _who() -> str:
    """As claims say it."""
    return f"{operator()} {datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _line(found: Found, who: str) -> str:
    return f"{who} adopt {found.run} from {found.operator or 'nobody known'}"
