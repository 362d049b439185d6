"""What `canserve up`, `status` and `down` print with --format json; the rules of ``shapes`` hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from canserve.render.progress_shapes import RankShape
from canserve.render.shapes import FindingShape


@dataclass(frozen=True, slots=True)
class StepShape:
    """One command on one machine."""

    stage: Annotated[int, "All of a stage have succeeded before the next begins."]
    name: str
    machine: str
    process: Annotated[int | None, "The process that it starts or waits for."]
    argv: tuple[str, ...]
    line: Annotated[str, "The same, to be pasted here."]
    patience_s: Annotated[float, "Repeated until it succeeds, for so long; 0: run once."]


@dataclass(frozen=True, slots=True)
class RunningShape:
    """One process of a deployment."""

    process: int
    ranks: Annotated[str, "Empty: it only joins machines, or nobody says."]
    machine: str
    kind: Literal["container", "process"]
    name: Annotated[str, "Of the container, or the folder of the process."]
    alive: Annotated[bool | None, "null: could not be seen."]
    exit: int | None
    state: str
    phases: Annotated[
        tuple[str, ...],
        "How far each of its ranks has come, as its log says; empty: it does not, or was not asked.",
    ]
    last_line: str


@dataclass(frozen=True, slots=True)
class LeftShape:
    """What could not be taken away, or not be asked."""

    machine: str
    step: str
    why: str


@dataclass(frozen=True, slots=True)
class CandidateShape:
    """One plan of several, and what has become of it."""

    number: Annotated[int, "From 1, the best first."]
    build: str
    layout: Annotated[str, "Its degrees: TP2."]
    machines: tuple[str, ...]
    state: Literal["refused", "skipped", "left-over", "up", "starting", "stalled", "failed", "interrupted"]
    because: str
    hint: str
    run: Annotated[str | None, "Of one that was tried."]
    kind: Annotated[str | None, "Of the cause, as `canserve diagnose` names kinds."]
    cause: Annotated[str | None, "The finer name within the kind."]
    seen: Annotated[tuple[str, ...], "What was seen on each rank."]
    evidence: Annotated[str | None, "A folder here with logs, stacks and counters of it."]
    not_free: Annotated[tuple[str, ...], "What it held and is not free again."]


@dataclass(frozen=True, slots=True)
class UpShape:
    """Output of `canserve up --format json`."""

    version: Annotated[Literal[1], "Of this format."]
    run: str
    model: str
    build: str
    state: Literal["dry-run", "up", "starting", "stalled", "failed", "interrupted"]
    because: str
    hint: str
    endpoint: Annotated[str | None, "Machine and port of the API."]
    steps: tuple[StepShape, ...]
    processes: tuple[RunningShape, ...]
    ranks: Annotated[tuple[RankShape, ...], "How far each came, and when; empty: nothing was watched."]
    fix: Annotated[str, "What would heal the cause of a failure; empty: nothing is known to."]
    undone: Annotated[bool, "What had begun was taken away again."]
    left: tuple[LeftShape, ...]
    notes: tuple[str, ...]
    findings: Annotated[tuple[FindingShape, ...], "Judged of its machines before anything is started."]
    candidates: Annotated[
        tuple[CandidateShape, ...], "All plans, in their order; empty where nothing was run."
    ]


@dataclass(frozen=True, slots=True)
class RunShape:
    """One deployment as it is now."""

    run: str
    model: Annotated[str | None, "null: it is somebody else's, and its machines do not say."]
    build: str | None
    operator: str
    state: Literal["running", "partly", "ended", "gone", "unknown"]
    journal: Annotated[str | None, "Its state in the journal of this machine; null: it is not in there."]
    endpoint: Annotated[str | None, "Machine and port of the API."]
    listens: Annotated[bool | None, "Whether something listens there."]
    claims: Annotated[tuple[str, ...], "What it holds of which machine."]
    processes: tuple[RunningShape, ...]
    gone: Annotated[tuple[int, ...], "Processes that were started and are not there any more."]
    troubles: tuple[LeftShape, ...]


@dataclass(frozen=True, slots=True)
class StatusShape:
    """Output of `canserve status --format json`."""

    version: Annotated[Literal[1], "Of this format."]
    runs: tuple[RunShape, ...]


@dataclass(frozen=True, slots=True)
class DownShape:
    """Output of `canserve down --format json`."""

    version: Annotated[Literal[1], "Of this format."]
    run: str
    state: Literal["dry-run", "down", "left", "nothing"]
    machines: tuple[str, ...]
    steps: tuple[StepShape, ...]
    left: tuple[LeftShape, ...]
