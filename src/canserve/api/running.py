"""``status``, ``logs``, ``down``: deployments found again, by the journal, or by what their machines hold."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal

from canserve.api import Options, SpecError
from canserve.api.described import as_told, described
from canserve.api.preparing import operator
from canserve.api.sites import from_kept, named
from canserve.commands.ssh import Route
from canserve.plan.steps.step import Step
from canserve.plan.steps.stopping import stopping
from canserve.probes.container.naming import PROGRAMS
from canserve.probes.live import routes
from canserve.run.executing import Failure, Hands, Stop, carry_out, now
from canserve.run.looking import RUN, Question, look_for
from canserve.store.journal import Entry, Journal
from canserve.subjects.cluster import Node
from canserve.subjects.deployment import PROCESS, STATE, Running, Seen

NOT_NAMED = "it holds something of it, and was not named"
OPEN = ("starting", "up", "kept", "stopping", "left")
"""States of the journal in which something may be on machines."""


@dataclass(frozen=True, slots=True)
class Sought:
    """Which deployments are meant, and where."""

    run: str | None = None
    on: tuple[str, ...] = ()
    """Machines; empty: those of the journal."""
    state: str | None = None
    """The folder of claims; None: the run's own, or the usual one."""
    programs: tuple[str, ...] = ()
    """Container engines to ask where nothing says which; empty: docker."""


@dataclass(frozen=True, slots=True)
class Found:
    """A deployment as it is now."""

    run: str
    entry: Entry | None
    """In this journal; None: somebody else's."""
    nodes: tuple[Node, ...]
    """Machines that hold something of it first, then those on the way."""
    held: tuple[str, ...]
    program: str | None
    """What holds its processes; None: nothing says."""
    state: str
    operator: str
    seen: tuple[Seen, ...]
    described: Mapping[str, Any] = field(default_factory=dict)
    """What its machines say of it, in the form of the journal."""

    @property
    def running(self) -> tuple[Running, ...]:
        """Its processes, by number."""
        found = (one for each in self.seen for one in each.running if one.run == self.run)
        return tuple(sorted(found, key=lambda one: (one.process, one.machine)))

    @property
    def gone(self) -> tuple[int, ...]:
        """Processes that were started, and of which nothing is there any more."""
        there = {one.process for one in self.running}
        unseen = {each.machine for each in self.seen if each.trouble is not None}
        told = self.told.get("processes", ())
        return tuple(n for n, one in enumerate(told) if n not in there and one["host"] not in unseen)

    @property
    def told(self) -> Mapping[str, Any]:
        """What is known of it: by this journal, or else by what its machines say; empty where neither does."""
        return self.entry.told if self.entry is not None else self.described

    @property
    def troubles(self) -> tuple[Seen, ...]:
        """Machines of which not everything could be seen."""
        return tuple(each for each in self.seen if each.trouble is not None)

    @property
    def word(self) -> Literal["running", "partly", "ended", "gone", "unknown"]:
        """``running``, ``ended``, ``partly``, ``gone`` or ``unknown``."""
        alive = [one.alive for one in self.running] + [False] * len(self.gone)
        if self.troubles or None in alive:
            return "partly" if False in alive else "unknown"
        if not self.running:
            return "gone"
        return "running" if all(alive) else "partly" if any(alive) else "ended"


def status(sought: Sought, journal: Journal, options: Options | None = None) -> tuple[Found, ...]:
    """Every deployment that is meant, as it is now. Raises SpecError for one that nothing is known of."""
    options = options or Options()
    _refuse(sought)
    if sought.on:
        return _on_machines(sought, journal, options)
    entries = [
        entry for entry in journal.runs() if (entry.run == sought.run if sought.run else entry.state in OPEN)
    ]
    if sought.run and not entries:
        raise SpecError(f"the journal has no run {sought.run}", "name its machines with --on")
    return tuple(_of_journal(entry, sought) for entry in entries)


def _refuse(sought: Sought) -> None:
    if sought.run is not None and not RUN.fullmatch(sought.run):
        raise SpecError(f"{sought.run} is no name of a run", "canserve status names those that are there")


def _of_journal(entry: Entry, sought: Sought) -> Found:
    nodes, held = from_kept(entry.told["machines"]), tuple(entry.told["held"])
    program, state = entry.told["program"], sought.state or entry.told["state"]
    ports = () if entry.told["endpoint"] is None else (int(entry.told["endpoint"][1]),)
    programs = () if program == PROCESS else (program,)
    seen = look_for(nodes, Question(state, entry.run, programs, ports), held)
    mine = tuple(_only(entry.run, program, each) for each in seen)
    # Whoever took it over meanwhile is named by its machines.
    who = next((claim.operator for each in mine for claim in each.claims), entry.told["operator"])
    return Found(entry.run, entry, nodes, held, program, state, who, mine)


def _on_machines(sought: Sought, journal: Journal, options: Options) -> tuple[Found, ...]:
    nodes = tuple(node for node in named(sought.on, options, look=False) if node.address is not None)
    if not nodes:
        raise SpecError(f"{', '.join(sought.on)}: no machine with an address", "name ssh destinations")
    state = sought.state or STATE
    programs = sought.programs or ("docker",)
    seen = look_for(nodes, Question(state, sought.run, programs))
    if more := _engines_named(seen) - set(programs):  # a run there says that another engine holds it
        programs = (*programs, *sorted(more))
        seen = look_for(nodes, Question(state, sought.run, programs))
    entries = {entry.run: entry for entry in journal.runs()}
    runs = dict.fromkeys(
        [claim.run for each in seen for claim in each.claims]
        + [one.run for each in seen for one in each.running]
        + [one.run for each in seen for one in each.described]
        + ([sought.run] if sought.run else [])
    )
    found = (_found(run, entries.get(run), nodes, state, seen) for run in runs)
    return tuple(_asked(one, state) for one in found)


def _engines_named(seen: Sequence[Seen]) -> set[str]:
    """Container engines that claims and descriptions name."""
    claimed = {claim.program for each in seen for claim in each.claims}
    return (claimed | {one.program for each in seen for one in each.described}) & set(PROGRAMS)


def _asked(it: Found, state: str) -> Found:
    """With a look at the port where it answers, which is known only now."""
    where = it.told.get("endpoint")
    if where is None or where[0] not in it.held:
        return it
    port = int(where[1])
    (seen,) = look_for(it.nodes, Question(state, it.run, (), (port,)), (where[0],))
    if seen.trouble is not None:
        return it
    mine = (replace(each, ports=seen.ports) if each.machine == where[0] else each for each in it.seen)
    return replace(it, seen=tuple(mine))


def _found(run: str, entry: Entry | None, nodes: tuple[Node, ...], state: str, seen: Sequence[Seen]) -> Found:
    claims = [claim for each in seen for claim in each.claims if claim.run == run]
    running = [one for each in seen for one in each.running if one.run == run]
    program = next((claim.program for claim in claims), None)
    if program is None and running:
        program = PROCESS if running[0].kind == "process" else "docker"
    who = next((claim.operator for claim in claims), "")
    mine = tuple(_only(run, program, each) for each in seen)
    mine = tuple(each for each in mine if each.claims or each.running or each.described or each.trouble)
    held = tuple(each.machine for each in mine)
    told = described(run, state, nodes, mine)
    if told:
        program, who = program or told["program"], who or told["operator"]
        unnamed = (name for name in told["held"] if name not in held)
        mine += tuple(Seen(name, trouble=NOT_NAMED, hint="name it with --on") for name in unnamed)
    return Found(run, entry, nodes, held, program, state, who, mine, told)


def _only(run: str, program: str | None, seen: Seen) -> Seen:
    """What a look says of one deployment. A container engine that does not answer may hold something of it, or not."""
    return replace(
        seen,
        claims=tuple(claim for claim in seen.claims if claim.run == run),
        running=tuple(one for one in seen.running if one.run == run),
        described=tuple(one for one in seen.described if one.run == run),
        trouble=seen.trouble or (None if program == PROCESS else seen.engine_trouble),
    )


@dataclass(frozen=True, slots=True)
class DownReport:
    """What has become of it."""

    run: str
    machines: tuple[str, ...]
    steps: tuple[Step, ...]
    left: tuple[Failure, ...]
    nothing: bool
    """Nothing of it was there."""
    ways: Mapping[str, Route]
    """How machines are reached."""

    @property
    def state(self) -> Literal["down", "left", "nothing"]:
        """What it has come to."""
        return "left" if self.left else "nothing" if self.nothing else "down"


@dataclass(frozen=True, slots=True)
class Downing:
    """How ``down`` is carried out."""

    dry: bool = False
    stop: Stop = field(default_factory=Stop)
    tell: Callable[[str], None] = lambda _: None


def down(sought: Sought, journal: Journal, how: Downing, options: Options | None = None) -> DownReport:
    """Take one deployment away: what ``up`` made, and nothing else. Where nothing is left of it, nothing is done.

    Raises SpecError where it is not clear which is meant.
    """
    found = _one(status(sought, journal, options))
    ways = routes(found.nodes)
    there = any(each.claims or each.running or each.described for each in found.seen)
    if not there and not found.troubles:
        _settle(journal, found, "down")
        return DownReport(found.run, found.held, (), (), nothing=True, ways=ways)
    line = f"{operator()} {datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} down {found.run}"
    # Where nothing says what holds it, both are looked through: ending what is not there is no error.
    programs = (found.program,) if found.program is not None else ("docker", PROCESS)
    steps = tuple(
        step for each in programs for step in stopping(found.run, found.held, each, found.state, line)
    )
    steps = tuple(sorted(steps, key=lambda step: step.stage))
    if how.dry:
        return DownReport(found.run, found.held, steps, (), nothing=False, ways=ways)
    if found.entry is None:
        journal.begin(found.run, now(), as_told(found))
    journal.settle(found.run, "stopping")
    hands = Hands(found.run, {node.name: node for node in found.nodes}, journal, tell=how.tell, stop=how.stop)
    left = list(carry_out(steps, "down", hands, whole=True))
    if how.stop.asked:
        left.append(Failure(steps[-1], "not everything was taken away: interrupted", reached=False))
    unnamed = [each for each in found.seen if each.trouble == NOT_NAMED]
    left += [Failure(replace(steps[0], machine=each.machine), NOT_NAMED, reached=False) for each in unnamed]
    _settle(journal, found, "left" if left else "down")
    return DownReport(found.run, found.held, steps, tuple(left), nothing=False, ways=ways)


def _settle(journal: Journal, found: Found, state: str) -> None:
    if journal.run(found.run) is not None:
        journal.settle(found.run, state, ended=now())


def _one(found: Sequence[Found]) -> Found:
    match list(found):
        case [one]:
            return one
        case []:
            raise SpecError("there is no deployment", "canserve status --on MACHINE shows those of others")
        case several:
            runs = ", ".join(one.run for one in several)
            raise SpecError(f"there are {len(several)} deployments: {runs}", "name one of them")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a log."""

    process: int
    ranks: str
    machine: str
    text: str


def logs(found: Found, tail: int, follow: bool = False) -> Generator[Line, None, None]:
    """What its processes wrote: the last lines of each, by number; then, where it is followed, as they come."""
    from canserve.run.following import lines

    ranks = {n: one["ranks"] for n, one in enumerate(found.told.get("processes", ()))}
    program = found.program or "docker"
    with closing(lines(found.running, routes(found.nodes), program, tail, follow)) as read:
        for one, text in read:
            told = one.ranks or ",".join(map(str, ranks.get(one.process, ())))
            yield Line(one.process, told, one.machine, text)


def one_of(sought: Sought, journal: Journal, options: Options | None = None) -> Found:
    """The one deployment that is meant. Raises SpecError where that is not clear."""
    return _one(status(sought, journal, options))
