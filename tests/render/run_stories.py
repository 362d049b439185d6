"""Deployments made by hand: the founding one as a journal tells it, and one that tries to break the page."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from reports import HOSTILE

from canserve.api.running import Found
from canserve.api.story import Attempt, Story
from canserve.store.journal import Entry, Event, Kept
from canserve.subjects.deployment import Claim, Running, Seen

BEGAN = datetime(2026, 3, 1, 9, 0, 0, tzinfo=UTC)
RUN = "4f2a9c1d"
IMAGE = "docker-daemon:vllm/vllm-openai:v0.17.1"


def at(seconds: float) -> str:
    return (BEGAN + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def step(
    name: str, machine: str, begin: float, end: float | None, status: int | None = 0, output: str = ""
) -> Kept:
    argv = ("docker", "run", "-d", "--name", f"canserve-{RUN}-0", "vllm/vllm-openai:v0.17.1")
    return Kept("up", name, machine, 0, argv, at(begin), None if end is None else at(end), status, output)


def story() -> Story:
    first = Entry(
        "0a1b2c3d",
        at(-90),
        "failed",
        "both ranks stand still after joining",
        at(-20),
        {"build": "sglang==0.5.9", "story": RUN},
    )
    tried = Attempt(
        first, (step("start", "spark-1", -90, -88), step("listens", "spark-1", -87, -21, 1, "stalled"))
    )
    events = (
        Event(RUN, "", at(-95), "refused", "vllm==0.14.0: Qwen3_5MoeForConditionalGeneration is not registered"),
        *(
            Event(RUN, RUN, at(seconds), "phase", f"rank {rank} on spark-{rank + 1}: {phase}, after {seconds - 5} s")
            for seconds, rank, phase in (
                (5, 0, "process up"), (6, 1, "process up"), (40, 0, "weights 1 of 14"), (45, 1, "weights 2 of 14"),
                (220, 0, "compiling"), (300, 1, "ready"), (311, 0, "ready"),
            )
        ),
        Event(RUN, RUN, at(312), "up", ""),
    )  # fmt: skip
    return Story((tried, Attempt(found().entry or first, steps())), events)


def steps() -> tuple[Kept, ...]:
    return (
        step("claim", "spark-1", 0, 0.4),
        step("claim", "spark-2", 0, 0.6),
        step("image-held", "spark-1", 0.7, 1.1),
        step("image-held", "spark-2", 0.7, 1.6),
        step("port-free", "spark-1", 1.6, 1.8),
        step("start", "spark-1", 1.9, 4.0, 0, "4be1d1f0c0de"),
        step("start", "spark-2", 1.9, 4.4, 0, "8a0b7d1c0de0"),
        step("listens", "spark-1", 4.5, 312.0),
        step(
            "look", "spark-2", 312.2, 312.9, 255, "ssh: connect to host spark-2 port 22: Connection timed out"
        ),
        step("look", "spark-2", 314.0, None, None),
    )


def running(process: int, machine: str, alive: bool | None = True, last: str = "") -> Running:
    name = f"canserve-{RUN}-{process}"
    return Running(RUN, process, str(process), machine, "container", name, alive, None, "Up 5 minutes", last)


def found(run: str = RUN) -> Found:
    told = {
        "model": "Qwen/Qwen3.5-122B-A10B-FP8", "build": IMAGE, "engine": "vllm", "program": "docker",
        "state": "/var/tmp/canserve", "operator": "ana@head", "machines": [], "held": ["spark-1", "spark-2"],
        "endpoint": ["spark-1", 8000], "processes": [{"host": "spark-1", "ranks": [0]}, {"host": "spark-2", "ranks": [1]}],
    }  # fmt: skip
    entry = Entry(run, at(0), "up", "", None, told)
    seen = (
        Seen("spark-1", (Claim("accelerator-0", run, "docker", "ana@head"),), (running(0, "spark-1", last="Application startup complete."),), {8000: True}),
        Seen("spark-2", (Claim("accelerator-0", run, "docker", "ana@head"),), (running(1, "spark-2", alive=None),), trouble="ssh: timed out"),
    )  # fmt: skip
    return Found(run, entry, (), ("spark-1", "spark-2"), "docker", "/var/tmp/canserve", "ana@head", seen)


def hostile() -> tuple[Found, Story]:
    told = {
        "model": HOSTILE, "build": HOSTILE, "engine": HOSTILE, "program": "docker", "state": HOSTILE, "operator": HOSTILE,
        "machines": [], "held": [HOSTILE], "endpoint": [HOSTILE, 1], "processes": [],
    }  # fmt: skip
    entry = Entry(HOSTILE, "nonsense", HOSTILE, HOSTILE, None, told)
    one = Running(HOSTILE, 0, HOSTILE, HOSTILE, "container", HOSTILE, False, 1, HOSTILE, HOSTILE)
    seen = (Seen(HOSTILE, (), (one,), trouble=HOSTILE),)
    kept = (
        Kept(HOSTILE, HOSTILE, HOSTILE, None, (HOSTILE,), "nonsense", "2026", None, HOSTILE),
        Kept(HOSTILE, HOSTILE, HOSTILE, None, (HOSTILE,), at(0), at(-5), -9, HOSTILE),
        Kept(HOSTILE, HOSTILE, HOSTILE, None, (), at(0), "2026-03-01T09:00:09", 0, HOSTILE),
    )
    events = tuple(
        Event(HOSTILE, HOSTILE, when, what, HOSTILE) for when in (at(1), "x") for what in ("phase", HOSTILE)
    )
    it = Story((Attempt(entry, kept), Attempt(entry, ())), events)
    return Found(HOSTILE, entry, (), (HOSTILE,), "docker", HOSTILE, HOSTILE, seen), it
