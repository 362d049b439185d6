"""Which of all builds at hand serves the model? What is on the machines, what was named, found or released; ranked."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from canserve.api import (
    AT_ONCE,
    BuildReport,
    Judged,
    Options,
    SpecError,
    by_arch,
    judge,
    machine_hint,
    open_build,
    read_model,
    read_wish,
    say,
    wanted,
    with_routes,
)
from canserve.checks.case import Wish
from canserve.facts import Cause, Evidence, Known, Missing
from canserve.plan.offers.held import merged, on_machines
from canserve.plan.offers.offer import Offer
from canserve.plan.offers.ranking import Standing, ranked
from canserve.plan.offers.travel import Travel, of_build, of_weights
from canserve.probes.build import Reading
from canserve.probes.discover import WHOLLY
from canserve.probes.offers.candidates_file import CandidatesFileError
from canserve.probes.offers.gathering import Named, gather, sized, way_out
from canserve.subjects.build import Build
from canserve.subjects.cluster import Node
from canserve.subjects.machine import Machine
from canserve.subjects.model import Model
from canserve.trees.archive.remote import Place
from canserve.trees.fanout import fanout
from canserve.trees.tree import Cost
from canserve.verdict import No, Unknown, Verdict, Yes, word, worst_word

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Sought:
    """Where candidates are sought beside the machines, and how long."""

    named: Named = field(default_factory=Named)
    index: bool = True
    """Whether the newest suitable release of every engine, from the release index, is a candidate."""
    at_most: int = 24
    """Candidates that are read; those of the index are not read."""
    seconds: float = 300.0
    """After so many no further candidate is begun."""
    stored_as: str | None = None
    """As which Hub caches hold the model's weights, where the model was not named by its Hub id."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One build, judged for all machines."""

    offer: Offer
    reports: tuple[BuildReport, ...]
    """One for each CPU architecture among the machines."""
    travel: tuple[tuple[str, Travel], ...]
    """By machine: what of the build would have to be brought there."""
    date: str | None
    """ISO 8601: when it was made or released."""

    @property
    def deciding(self) -> BuildReport:
        """The report that decides: the first of the worst."""
        worst = worst_word(word(report.verdict) for report in self.reports)
        return next(report for report in self.reports if word(report.verdict) == worst)

    @property
    def verdict(self) -> Verdict:
        """The worst of all machines."""
        return self.deciding.verdict

    @property
    def blocking(self) -> str | None:
        """Name of the check that decides; None: no check does."""
        verdict = self.verdict
        return next((f.check for f in self.deciding.findings if f.verdict == verdict), None)

    @property
    def build(self) -> Build | Missing:
        """What was read of it."""
        return self.deciding.build


@dataclass(frozen=True, slots=True)
class CandidatesReport:
    """Every candidate, the best first."""

    model: Model
    on: tuple[str, ...]
    """The machines as they were named."""
    weights: tuple[tuple[str, Travel], ...]
    """By machine: what of the model would have to be brought there."""
    candidates: tuple[Candidate, ...]
    without_engine: tuple[str, ...]
    """What was read whole and holds no engine: no candidates."""
    left_out: tuple[str, ...]
    """What was heard of and not read, as there were too many."""
    unheard: tuple[str, ...]
    """Places that may hold further candidates, and why they could not be listed."""
    cost: Cost

    @property
    def verdict(self) -> Verdict:
        """The best candidate decides; a no of all only where everything that was heard of could be looked at."""
        if not self.candidates:
            return Unknown("no candidate was found", "name builds, or look at machines that hold some")
        best = self.candidates[0].verdict
        if isinstance(best, No) and (self.unheard or self.left_out):
            first = self.unheard[0] if self.unheard else f"{len(self.left_out)} were left out"
            return Unknown(f"every candidate that was judged is a no; {first}", "look at the rest as well")
        return best


def candidates(
    model: str, *, on: str | Sequence[str], sought: Sought | None = None, options: Options | None = None
) -> CandidatesReport:
    """Judge every build at hand for this model on these machines, best first.

    Raises SpecError for a machine, flag or file of candidates that cannot be understood; what cannot be *read* is
    a candidate that is unknown, or a place that is named in ``unheard``.
    """
    sought, options = sought or Sought(), options or Options()
    wish, targets = read_wish(options.flags), (on,) if isinstance(on, str) else tuple(on)
    begun = time.monotonic()
    nodes = _nodes(targets, options)
    subject = read_model(model, options)
    options = with_routes(options, nodes)
    asked = _Asked(subject, nodes, ", ".join(targets), wish, sought, options, begun + sought.seconds)
    with way_out(options.offline, lambda text: say(options, text)) as place:
        found = _judged(asked, place)
        cost = place.web.cost
    weights = ((node.name, of_weights(subject, node, sought.stored_as)) for node in nodes)
    return replace(found, on=targets, weights=tuple(weights), cost=found.cost + cost)


@dataclass(frozen=True, slots=True)
class _Asked:
    """One question."""

    model: Model
    nodes: tuple[Node, ...]
    on: str
    wish: Wish
    sought: Sought
    options: Options
    end: float

    @property
    def archs(self) -> tuple[str, ...]:
        """CPU architectures of the machines, as far as they are known."""
        if self.options.arch is not None:
            return (self.options.arch,)
        known = (node.machine.cpu_arch for node in self.nodes)
        return tuple(dict.fromkeys(arch.value for arch in known if isinstance(arch, Known)))


def _nodes(targets: Sequence[str], options: Options) -> tuple[Node, ...]:
    from canserve.probes.live import Way
    from canserve.probes.machine import MachineError, read_nodes

    try:
        return read_nodes(targets, Way(options.offline, options.progress))
    except MachineError as error:
        raise SpecError(str(error), machine_hint(targets)) from error


def _judged(asked: _Asked, place: Place) -> CandidatesReport:
    sought = asked.sought
    try:
        named = gather(sought.named, place, asked.archs, sought.at_most)
    except CandidatesFileError as error:
        raise SpecError(str(error), "canserve candidates --help shows its form") from error
    here = on_machines(asked.nodes)
    every = merged((*named.offers[: len(sought.named.builds)], *here.offers, *named.offers))
    chosen, rest = every[: sought.at_most], every[sought.at_most :]
    arch = asked.archs[0] if len(asked.archs) == 1 else None
    offers = merged(fanout(lambda offer: _in_time(asked, offer, lambda: sized(offer, place, arch)), chosen))
    readings = _readings(offers, asked)
    judged = [
        _candidate(offer, _reports(read, asked), asked) for offer, read in zip(offers, readings, strict=True)
    ]
    without = [one for one in judged if one.offer.source not in {"named", "file"} and _no_engine(one)]
    judged = [one for one in judged if one not in without]
    judged += [_candidate(offer, (report,), asked) for offer, report in _released(asked, judged)]
    return CandidatesReport(
        asked.model,
        (),
        (),
        ranked(judged, _standing),
        tuple(one.offer.target for one in without),
        tuple(offer.target for offer in rest),
        named.unheard + here.unheard,
        sum((one.cost for read in readings for one, _ in read), Cost()),
    )


def _in_time(asked: _Asked, before: T, work: Callable[[], T]) -> T:
    """What the work gives; what there was before, when the time is over."""
    return before if time.monotonic() > asked.end else work()


Read = tuple[tuple[Reading, tuple[Machine, ...]], ...]
"""One build, read for each CPU architecture, with the machines of that architecture."""


def _readings(offers: Sequence[Offer], asked: _Asked) -> list[Read]:
    """A few at once: most of the time is spent waiting for machines and registries."""
    from canserve.index import transformers_table

    transformers_table()  # all of them look into it: unpacked once
    machines = tuple(node.machine for node in asked.nodes)
    want = replace(wanted(asked.model, asked.wish, machines), deep=asked.options.deep)
    groups = by_arch(machines, asked.options.arch)

    def read(numbered: tuple[int, Offer]) -> Read:
        number, offer = numbered
        tell = _before(f"{number} of {len(offers)}: ", asked.options.progress)
        late = Reading(offer.target, _late(offer, asked.sought.seconds), Cost())
        return tuple(
            (
                _in_time(
                    asked, late, partial(open_build, offer.target, want, _how(offer, asked, arch, tell), arch)
                ),
                group,
            )
            for arch, group in groups
        )

    return fanout(read, tuple(enumerate(offers, 1)), AT_ONCE)


def _how(offer: Offer, asked: _Asked, arch: str | None, tell: Callable[[str], None] | None) -> Options:
    """Of a repository's many tags none is downloaded for another CPU, if only to say that it is for another one."""
    heard = offer.source in {"tag", "search"}
    return replace(asked.options, progress=tell, arch=arch if heard else asked.options.arch)


def _reports(read: Read, asked: _Asked) -> tuple[BuildReport, ...]:
    """With the machines' names, as ``check`` has them: whether they can run an image is judged as well."""
    return tuple(
        judge(Judged(asked.model, reading, group, asked.on, asked.wish, _of(asked, group)))
        for reading, group in read
    )


def _of(asked: _Asked, group: Sequence[Machine]) -> tuple[Node, ...]:
    return tuple(node for node in asked.nodes if any(node.machine is machine for machine in group))


def _before(which: str, tell: Callable[[str], None] | None) -> Callable[[str], None] | None:
    return None if tell is None else lambda text: tell(f"{which}{text}")


def _late(offer: Offer, seconds: float) -> Missing:
    look = Evidence(offer.target, "the time that was given", f"{seconds:g} s were over", whole=False)
    why = f"it was not read: {seconds:g} s were over before its turn"
    return Missing(Cause.UNREACHED, why, (look,), "give more seconds, or name it alone")


def _no_engine(candidate: Candidate) -> bool:
    """Whether all of it was looked at and there is no engine in it."""
    return all(
        isinstance(report.build, Missing) and any(look.how == WHOLLY for look in report.build.evidence)
        for report in candidate.reports
    )


def _released(asked: _Asked, judged: Sequence[Candidate]) -> Iterator[tuple[Offer, BuildReport]]:
    """The newest suitable release of every engine, as ``check`` without a build finds it."""
    if not asked.sought.index:
        return
    from canserve.api.newest import Wanted, newest_suitable

    say(asked.options, "asking the release index")
    machines = tuple(node.machine for node in asked.nodes)
    named = {candidate.offer.target for candidate in judged}
    for report in newest_suitable(Wanted(asked.model, machines, asked.on, asked.wish, asked.options)):
        if report.target not in named:
            yield Offer(report.target, "index"), report


def _candidate(offer: Offer, reports: tuple[BuildReport, ...], asked: _Asked) -> Candidate:
    travel = tuple((node.name, of_build(offer, node)) for node in asked.nodes)
    return Candidate(offer, reports, travel, offer.date or _release_date(reports))


def _release_date(reports: Sequence[BuildReport]) -> str | None:
    """When the release came out that a build is of, by the index; a build between releases has none."""
    from canserve.index import release_history

    for report in reports:
        build = report.build
        if isinstance(build, Missing) or isinstance(build.identity.version, Missing):
            continue
        shelf = release_history().shelf(build.identity.engine)
        version = build.identity.version.value
        rows = (row for row in shelf.releases if row["version"] == version) if shelf else iter(())
        if (row := next(rows, None)) is not None:
            return str(row.get("date") or "") or None
    return None


def _standing(candidate: Candidate) -> Standing:
    travel = tuple(each for _, each in candidate.travel)
    return Standing(word(candidate.verdict), travel, candidate.date, candidate.offer.target)


def needs(candidate: Candidate) -> tuple[str, ...]:
    """Conditions of a yes that the user controls."""
    findings = (finding for report in candidate.reports for finding in report.findings)
    found = (need for f in findings if isinstance(f.verdict, Yes) for need in f.verdict.needs)
    return tuple(dict.fromkeys(found))
