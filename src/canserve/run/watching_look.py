"""One look at everything of a deployment that starts: what lives, what was written since, what the kernel counts."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from canserve.commands import serving, watching
from canserve.engines import ray
from canserve.engines.listening import asked_at
from canserve.plan.steps.starting import endpoint
from canserve.probes.live import Way, asked
from canserve.probes.logs.matching import Matcher
from canserve.probes.logs.tracking import Tracker
from canserve.run.looking import WIDTH, Question, sections_of, understood
from canserve.run.watching_kernel import Below, accelerators, counters, lasting, trees, whole
from canserve.subjects.cluster import Node
from canserve.subjects.deployment import PROCESS, Deployment, Folder, Seen
from canserve.subjects.progress import Sample
from canserve.transport.frames import Answer, Section
from canserve.transport.reach import Limits, Look
from canserve.trees.fanout import fanout

MOST = 512 << 10
"""Bytes of one log that are read with one look; the rest comes with the next."""
FIRST, LEAST, MOST_SECONDS = 25.0, 15.0, 60.0
"""Seconds that a look may take: the first, and any, at least and at most. A machine that does not answer must not hide another's death."""
AGAIN = 20.0
"""Seconds until a machine that did not answer is looked at again."""
SHORTEST = 4.0
"""Seconds that a look has, and a machine that did not answer, of whoever has the least patience."""
_HEALTH, _MODELS = "/health", "/v1/models"
_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT[\d:]{8}(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)) ")


@dataclass
class Log:
    """What is known of one process's log."""

    tracker: Tracker
    since: str | None = None
    """Of a container: the moment of the last line."""
    lines: list[bytes] = field(default_factory=list)
    """Of a container: those of that moment."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What one look showed."""

    seen: tuple[Seen, ...]
    samples: tuple[Sample, ...]
    answers: bool | None
    """Whether the API answered; None: it could not be asked."""
    pids: Mapping[int, tuple[int, ...]]
    """By process: what runs below it."""


class Eyes:
    """Looks at one deployment again and again; a log is read once."""

    def __init__(
        self,
        it: Deployment,
        nodes: Sequence[Node],
        matcher: Matcher,
        stop: Callable[[], bool],
        patience: float = 1.0,
    ) -> None:
        """``patience`` below 1: who waits less for what stands waits less for a machine that does not answer, too."""
        self.deployment, self._matcher, self._stop = it, matcher, stop
        self.nodes = {node.name: node for node in nodes}
        self._only = tuple(site.name for site in it.sites)
        self.logs = {
            number: Log(Tracker(matcher, it.engine, process.ranks))
            for number, process in enumerate(it.processes)
        }
        self._path = _HEALTH
        self._least, self._again = (max(SHORTEST, each * min(patience, 1.0)) for each in (LEAST, AGAIN))
        self._seconds = FIRST
        self._lost: dict[str, tuple[float, Look]] = {}
        """Machines that did not answer: when they are asked again, and what they said."""
        self.endpoint = _endpoint(it)
        programs = () if it.program == PROCESS else (it.program,)
        ports = () if self.endpoint is None else (self.endpoint[2],)
        self._question = Question(it.state, it.run, programs, ports)

    def look(self) -> Sight:
        """Every machine at the same time. Never raises for what a machine does."""
        looks = self._looks()
        seen, samples, pids = [], [], dict[int, tuple[int, ...]]()
        for name, look in looks.items():
            at = understood(name, look, self._question)
            counted = trees(look)
            for number in self._of(name):
                self._read(number, look)
                samples.append(self._sample(number, at, look, counted.get(number, Below())))
                pids[number] = counted.get(number, Below()).pids
            seen.append(at)
        samples.sort(key=lambda sample: sample.process)
        return Sight(tuple(seen), tuple(samples), self._answered(looks), pids)

    def _of(self, machine: str) -> Iterator[int]:
        return (number for number, each in enumerate(self.deployment.processes) if each.host == machine)

    def _looks(self) -> dict[str, Look]:
        began = time.monotonic()
        names = [name for name in self._only if name in self.nodes]
        now = [name for name in names if name not in self._lost or self._lost[name][0] <= began]
        found = dict(zip(now, fanout(self._asked, now, WIDTH), strict=True))
        ended = time.monotonic()
        for name, look in found.items():
            self._lost.pop(name, None)
            if not look.answers:
                self._lost[name] = (ended + self._again, look)
        # A machine that is only slow gets more time with every look that was too short for it.
        wanted = (
            2 * self._seconds if self._lost.keys() & found.keys() else max(self._least, 4 * (ended - began))
        )
        self._seconds = min(wanted, MOST_SECONDS)
        return {name: found[name] if name in found else self._lost[name][1] for name in names}

    def _asked(self, name: str) -> Look:
        # A look has at least that for its start, and a little more.
        connect = min(Limits().connect, int(self._seconds / 2))
        limits = Limits(connect, self._seconds, output=64 << 20, stop=self._stop)
        return asked(self.nodes[name], self.nodes, tuple(self._sections(name)), Way(), limits)

    def _sections(self, name: str) -> Iterator[Section]:
        yield from sections_of(self._question)
        it, roots = self.deployment, []
        for number in self._of(name):
            log = self.logs[number]
            if isinstance(it.where, Folder):
                folder = serving.folder(it.state, it.run, number)
                yield Section(f"log_{number}", watching.detached_log(folder, log.tracker.size, MOST), MOST)
                roots.append(watching.detached_root(number, folder))
            else:
                container = serving.container_name(it.run, number)
                script = watching.container_log(it.where.program, container, log.since, MOST)
                yield Section(f"log_{number}", script, MOST)
                roots.append(watching.container_root(number, it.where.program, container))
        yield Section("tree", watching.tree(roots), 128 * watching.MOST_PROCESSES)
        if it.site(name).devices:
            yield Section("gpu", watching.ACCELERATORS)
        if self.endpoint is not None and self.endpoint[0] == name:
            yield Section("answer", watching.answer(self.endpoint[1] + self._path))

    def _read(self, number: int, look: Look) -> None:
        found = look.section(f"log_{number}")
        if not isinstance(found, Answer) or not found.out:
            return
        log = self.logs[number]
        if isinstance(self.deployment.where, Folder):
            log.tracker.feed(found.out)
        else:
            log.tracker.feed(fresh(log, found))

    def _sample(self, number: int, seen: Seen, look: Look, below: Below) -> Sample:
        process = self.deployment.processes[number]
        told = self.logs[number].tracker.told
        sample = Sample(number, process.host, process.ranks, told=told, speaks=bool(process.ranks))
        if not look.answers:
            return replace(sample, seen=False)
        running = next((one for one in seen.running if one.process == number), None)
        if running is None:
            reached = not look.trouble and seen.trouble is None and seen.engine_trouble is None
            return replace(
                sample, seen=reached, alive=False if reached else None, state="is not there any more"
            )
        state = running.state if not running.last else f"{running.state}: {running.last}"
        held = accelerators(look) if process.ranks else None
        seen_there = "tree" in look.answers
        counted = counters(below, ray.starts(process.argv), held) if seen_there else None
        last = lasting(below, self._matcher.lasts) if counted is not None and whole(look) else None
        return replace(
            sample, alive=running.alive, state=state, code=running.exit, counters=counted, lasting=last
        )

    def _answered(self, looks: Mapping[str, Look]) -> bool | None:
        if self.endpoint is None or self.endpoint[0] not in looks:
            return None
        found = looks[self.endpoint[0]].section("answer")
        if not isinstance(found, Answer) or found.status == 3:
            return None
        code = found.text.strip()[-3:]
        if code == "404":
            self._path = _MODELS if self._path == _HEALTH else _HEALTH
        return code.startswith("2") or (self._path == _MODELS and code in ("401", "403"))


def _endpoint(it: Deployment) -> tuple[str, str, int] | None:
    """The machine of the API, the URL at which it is asked there, and its port."""
    where = endpoint(it)
    if where is None:
        return None
    argv = next((one.argv for one in it.processes if one.host == where[0] and one.ranks), ())
    return where[0], asked_at(argv, where[1]), where[1]


def fresh(log: Log, found: Answer) -> bytes:
    """Lines of a container that were not read before, without their moments."""
    lines = found.out.split(b"\n")
    if not found.whole:
        lines = lines[:-1]
    fresh, before = [], list(log.lines)
    for line in lines:
        if not line:
            continue
        stamp = _STAMP.match(line)
        if stamp is None:
            fresh.append(line)
            continue
        moment = stamp[1].decode()
        if moment == log.since and line in before:
            before.remove(line)
            continue
        if moment != log.since:
            log.since, log.lines = moment, []
        log.lines.append(line)
        fresh.append(line[stamp.end() :])
    return b"\n".join([*fresh, b""]) if fresh else b""
