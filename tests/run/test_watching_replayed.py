"""Real starts of real engines, second by second, through the watcher: those that stood are named, no healthy one is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import pytest

from canserve.api.diagnosing import judged, shipped_matcher
from canserve.checks.diagnosis.log import Socket
from canserve.checks.diagnosis.stalls import Stall
from canserve.checks.diagnosis.standing import Scene, merged, standing
from canserve.plan.budgets import Budgets
from canserve.plan.watching import Watch, marked
from canserve.probes.logs.opening import read_path
from canserve.probes.logs.reading import read_log
from canserve.probes.logs.tracking import Tracker
from canserve.subjects.progress import Counters, Outlook, Sample

STALLED = {
    "fail-badhostip": ("queue-address-unreachable", "127.0.0.1"),
    "fail-gloo": ("ranks-cannot-connect", "10.213.7.1:44099"),
    "fail-masterport": ("store-unreachable", "10.213.7.1:29501"),
    "fail-noworker": ("rank-missing", "rank 1 of 2"),
    "fail-ray-noworker": ("ray-lacks-gpus", ""),
}
HEALTHY = ("idle-mp-tp2", "idle-ray-tp2", "idle-sgl-tp2", "mp-pp2-smollm2")
FAILED = {"fail-gloo-lo-both": "Gloo", "ray-stock": "current platform cpu does not support ray."}
_TIMED = re.compile(rb" {0,8}(\d+\.\d\d) ?")
_ENDED_BY_HAND = b"[shutdown]"


@dataclass(frozen=True)
class Written:
    """One process of a recorded start."""

    machine: str
    ranks: tuple[int, ...]
    lines: tuple[tuple[float, bytes], ...]

    def between(self, after: float, until: float) -> bytes:
        return b"".join(line + b"\n" for at, line in self.lines if after < at <= until)


def recorded(folder: Path, case: str) -> tuple[list[Written], str]:
    """Its processes, and the engine."""
    logs = sorted(folder.glob(f"{case}.[ab][01].log"))
    alone = len(logs) == 1 and "ray" in case
    found = []
    for number, path in enumerate(logs):
        lines = [
            (float(hit[1]), raw[hit.end() :])
            for raw in path.read_bytes().split(b"\n")
            if (hit := _TIMED.match(raw)) is not None and _ENDED_BY_HAND not in raw
        ]
        found.append(Written(path.name.split(".")[1][0], (0, 1) if alone else (number,), tuple(lines)))
    return found, "sglang" if "sgl" in case else "vllm"


class Replay:
    """Looks at a recorded start once a second."""

    def __init__(self, processes: Sequence[Written], engine: str, counters: Counters | None = None) -> None:
        matcher = shipped_matcher()
        markers = ((each.engine, each.phase) for each in matcher.knowledge.markers)
        self._watch = Watch(Budgets(), tuple(matcher.knowledge.order), marked(markers, engine))
        self._trackers = [Tracker(matcher, engine, each.ranks) for each in processes]
        self._processes, self._counters, self._at = processes, counters, -1.0

    def until(
        self, end: float, ended: frozenset[int] = frozenset()
    ) -> Iterator[tuple[Outlook, list[Sample]]]:
        while self._at < end:
            before, self._at = self._at, self._at + 1.0
            samples = []
            for number, (each, tracker) in enumerate(zip(self._processes, self._trackers, strict=True)):
                tracker.feed(each.between(before, self._at))
                alive = not (number in ended and self._at > each.lines[-1][0])
                samples.append(
                    Sample(
                        number,
                        each.machine,
                        each.ranks,
                        alive=alive,
                        told=tracker.told,
                        counters=self._counters,
                    )
                )
            yield self._watch.observe(samples, self._at), samples

    def kept(self, number: int) -> bytes:
        return self._trackers[number].kept


def sockets(folder: Path, case: str) -> tuple[Socket, ...]:
    (reading,) = read_path(folder / f"{case}.stall1.dump", shipped_matcher(), lambda _: None)
    return tuple(reading.sockets)


def named(outlook: Outlook, samples: Sequence[Sample], seen: tuple[Socket, ...]) -> Stall:
    assert outlook.standstill is not None
    facts = merged([sample.told.facts for sample in samples])
    return standing(Scene(outlook.stages, outlook.standstill.phase, facts, seen, frozenset("ab")))


IDLE = [None, Counters(10.0, 1 << 30, 1 << 30)]


@pytest.mark.parametrize("counters", IDLE, ids=["log alone", "counters that stand"])
@pytest.mark.parametrize("case", STALLED)
def test_a_start_that_stands_is_named(shared: Path, case: str, counters: Counters | None) -> None:
    folder = shared / "cases" / "stalls"
    processes, engine = recorded(folder, case)
    written = max(at for each in processes for at, _ in each.lines)
    looks = Replay(processes, engine, counters).until(written + 1000)
    outlook, samples = next(each for each in looks if each[0].standstill is not None)
    assert outlook.standstill is not None
    assert outlook.standstill.over <= 60 and outlook.standstill.quiet >= 30
    stall = named(outlook, samples, sockets(folder, case))
    name, detail = STALLED[case]
    assert (stall.name, detail in str(stall.seen)) == (name, True), stall
    assert stall.name in shipped_matcher().knowledge.stalls
    told = [f"{stage.who} {stage.words}" for stage in outlook.stages]
    assert all("join" in each for each in told), told


@pytest.mark.parametrize("case", ["fail-badhostip", "fail-noworker", "fail-ray-noworker"])
def test_without_a_look_at_sockets_it_is_named_too(shared: Path, case: str) -> None:
    folder = shared / "cases" / "stalls"
    processes, engine = recorded(folder, case)
    outlook, samples = next(
        each for each in Replay(processes, engine).until(2000) if each[0].standstill is not None
    )
    assert named(outlook, samples, ()).name == STALLED[case][0]


@pytest.mark.parametrize("counters", IDLE, ids=["log alone", "counters that stand"])
@pytest.mark.parametrize("case", HEALTHY)
def test_no_healthy_start_ever_stands(shared: Path, case: str, counters: Counters | None) -> None:
    processes, engine = recorded(shared / "cases" / "stalls", case)
    answered = next(at for each in processes for at, line in each.lines if b"GET /v1/models" in line)
    replay, last = Replay(processes, engine, counters), None
    for last, _ in replay.until(answered):
        assert last.standstill is None and not last.ended, last
    assert last is not None and {stage.phase for stage in last.stages if stage.machine == "a"} == {"ready"}
    for stage in last.stages:
        phases = [phase for phase, _ in stage.history]
        assert len(phases) == len(set(phases)) and {"loading", "loaded"} & set(phases), stage


@pytest.mark.parametrize("case", FAILED)
def test_a_process_that_ends_is_seen_and_its_own_error_is_said(shared: Path, case: str) -> None:
    processes, engine = recorded(shared / "cases" / "stalls", case)
    replay = Replay(processes, engine)
    for outlook, _ in replay.until(500, frozenset({0})):
        if outlook.ended:
            break
        assert outlook.standstill is None
    assert outlook.ended and outlook.at - processes[0].lines[-1][0] <= 2
    found = judged([read_log("a0", BytesIO(replay.kept(0)), shipped_matcher())], shipped_matcher().knowledge)
    assert found.cause is not None and FAILED[case].lower() in found.cause.text.lower(), found.cause
