"""``verify`` of a deployment by its name: where it answers, what its plan promised, which processes are left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from canserve.api import SpecError
from canserve.api.promised import from_kept
from canserve.api.ranks_told import ended_since, ranks_told
from canserve.api.running import Found
from canserve.api.verifying import VerifyReport, VerifyWishes, judged, verify_endpoint
from canserve.facts import Cause, Evidence, Fact, Known, Missing
from canserve.probes.live import routes
from canserve.run.serving_at import Place, found_at
from canserve.transport.forwarding import ForwardError, forwarded
from canserve.verify.target import Endpoint


def verify_run(found: Found, wishes: VerifyWishes) -> VerifyReport:
    """Ask a deployment where it serves, over ssh where it is on another machine, and judge what it answers.

    Raises SpecError where nothing says where it answers, or its machine cannot be reached.
    """
    tell = wishes.progress or (lambda _: None)
    tell("looking for its endpoint")
    place = _place(found)
    expected = None
    if wishes.plan is None and found.told:
        promise = from_kept(found.told.get("promise"), found.run)
        # A plan that states no speed is nothing to compare with: the check does not apply.
        expected = promise if isinstance(promise, Known) else None
    with _endpoint(found, place, wishes) as endpoint, ranks_told(found, wishes.ledger):
        report = verify_endpoint(endpoint, wishes, expected, _ended(found))
    tell("looking at its processes once more")
    return _with_later_ends(report, found)


def _with_later_ends(report: VerifyReport, found: Found) -> VerifyReport:
    """The same, judged anew where a process came to its end while the questions were asked."""
    later = ended_since(found)
    if not later:
        return report
    before = report.served.ended
    looks = tuple(Evidence(one.machine, f"process {one.process} of {found.run}", one.state) for one in later)
    ends = tuple(f"process {one.process} on {one.machine} {one.state}, while it was asked" for one in later)
    known = (
        Known((*before.value, *ends), (*before.evidence, *looks))
        if isinstance(before, Known)
        else Known(ends, looks)
    )
    return replace(judged(replace(report.served, ended=known)), notes=report.notes)


def _place(found: Found) -> Place:
    if not found.running:
        if found.troubles:
            first = found.troubles[0]
            raise SpecError(f"{first.machine}: {first.trouble}", first.hint)
        raise SpecError(
            f"nothing of {found.run} is on its machines",
            f"canserve status {found.run} says what became of it",
        )
    if found.entry is not None and found.entry.told["endpoint"] is not None:
        machine, port = found.entry.told["endpoint"]
        return Place(str(machine), int(port))
    place = found_at(found.running, found.nodes, found.program)
    if place is None:
        raise SpecError(
            f"nothing says where {found.run} answers requests",
            "canserve verify http://HOST:PORT asks it there",
        )
    return place


@contextmanager
def _endpoint(found: Found, place: Place, wishes: VerifyWishes) -> Iterator[Endpoint]:
    name = f"{found.run} on {place.machine}:{place.port}"
    here = Endpoint(f"http://127.0.0.1:{place.port}", wishes.key, name=name)
    route = routes(found.nodes).get(place.machine)
    if route is None:
        yield here
        return
    try:
        with forwarded(route, place.port) as socket:
            yield replace(here, socket=socket)
    except ForwardError as error:
        raise SpecError(f"{place.machine}: {error}", error.ask) from error


def _ended(found: Found) -> Fact[tuple[str, ...]]:
    """Its processes that are no more, each in a few words."""
    told = [] if found.entry is None else found.entry.told["processes"]
    looks = tuple(
        Evidence(one.machine, f"process {one.process} of {found.run}", one.state) for one in found.running
    )
    if not looks or found.troubles:
        why = found.troubles[0].trouble if found.troubles else "none of its processes was seen"
        return Missing(Cause.UNREACHED, f"whether all of its processes run: {why}")
    gone = [f"process {n} on {told[n]['host']} is gone" for n in found.gone]
    ended = [
        f"process {one.process} on {one.machine} {one.state}" for one in found.running if one.alive is False
    ]
    return Known((*ended, *gone), looks)
