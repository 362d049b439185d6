"""A small torch.distributed program on every machine, in the environment or image that is to serve there.

It is run only when it is asked for. After a stall the two ranks in question are run alone, with one thing changed.
"""

from __future__ import annotations

import secrets
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.resources import files
from itertools import accumulate
from types import FrameType
from typing import Any

from canserve.checks.machines.network import Network, network
from canserve.checks.preflight.suspects import Change, changes, suspects
from canserve.checks.reader import Reader, Unread
from canserve.commands import ssh
from canserve.commands.preflight import Place, Start, script
from canserve.facts import Cause, Evidence, Known, Missing
from canserve.probes.live import LOCAL, Way, asked, jumps
from canserve.probes.preflight.reading import Heard, complaint, preflight
from canserve.subjects.addresses import advertised
from canserve.subjects.cluster import Cluster, Node
from canserve.subjects.preflight import Preflight, Rank, Trial
from canserve.transport.frames import Answer, Section
from canserve.transport.reach import Limits
from canserve.trees.fanout import fanout

PARTS = ("kernels.py", "ranks.py", "program.py")
_FUTURE = "from __future__ import annotations\n"
SIZES = (8, 1 << 13, 1 << 18, 1 << 20, 1 << 24, 1 << 28)
"""Bytes: 8 B to 256 MB."""
BROADCAST = (1 << 20, 1 << 24)
PAIR = 1 << 25
KERNELS = ("bfloat16", "float16", "triton", "fp8", "fp4")
"""Tried where no plan says what it needs."""
FIRST_PORT, LAST_PORT = 20000, 32000
"""Below those that the kernel gives to connections."""
MOST_RANKS = 8
"""Of one machine."""
_STEPS = {
    "start": 2,
    "import": 4,
    "device": 2,
    "store": 1,
    "head": 4,
    "meet": 4,
    "kernel": 3,
    "other": 1,
    "whole": 14,
}
"""How often a step's time each of them gets: torch takes long to import from a cold disk, and longer on one
machine than on another; compilers take long."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be run."""

    places: Mapping[str, Place]
    """By machine; ``""``: on every machine that is not named."""
    environment: Mapping[str, str] = field(default_factory=dict)
    backend: str | None = None
    """``nccl`` or ``gloo``; None: NCCL where every machine has NVIDIA's accelerators."""
    seconds: int = 30
    """For one step."""
    kernels: tuple[str, ...] = KERNELS

    def place(self, node: Node) -> Place | None:
        """Where it runs on a machine."""
        return self.places.get(node.name, self.places.get(""))


@dataclass(frozen=True, slots=True)
class Job:
    """What one machine is given."""

    node: Node
    ranks: tuple[int, ...]
    """As they are called in the records: those of the first run."""
    start: Start
    task: Mapping[str, Any]

    @property
    def text(self) -> str:
        """The script."""
        return script(self.start, program(), self.task)


@dataclass(frozen=True, slots=True)
class Run:
    """All jobs of one run."""

    jobs: tuple[Job, ...]
    backend: str
    master: str
    seconds: int
    """After which nothing of it is left."""


def program() -> str:
    """The program as one text; what must be the first line of a file stands once."""
    here = files("canserve.probes.preflight")
    first, *more = (here.joinpath(name).read_text(encoding="utf-8") for name in PARTS)
    return "\n\n".join([first, *(part.replace(_FUTURE, "", 1) for part in more)])


def prepared(cluster: Cluster, wanted: Wanted) -> Run | Missing:
    """The first run, as it would be started; Missing: it cannot be, and why."""
    if not cluster.nodes or (bad := [n for n in cluster.nodes if n.address is None or not n.machine.reached]):
        names = ", ".join(node.name for node in bad) if cluster.nodes else "no machine"
        return Missing(
            Cause.UNREACHED, f"{names}: nothing can be started there", ask="name machines that can be reached"
        )
    if lost := [node.name for node in cluster.nodes if wanted.place(node) is None]:
        return Missing(Cause.UNREACHED, f"no --in for {', '.join(lost)}", ask=f"--in {lost[0]}:/PATH")
    master = _meeting(cluster.nodes)
    if master is None:
        why = f"no address of {cluster.nodes[0].name} is known under which the ranks could meet"
        return Missing(Cause.UNAVAILABLE, why, ask="state ip and interface in the cluster file")
    backend = wanted.backend or ("nccl" if all(map(_gpus, cluster.nodes)) else "gloo")
    alone = 2 if len(cluster.nodes) == 1 else 1
    counts = [min(_gpus(n), MOST_RANKS) if backend == "nccl" else alone for n in cluster.nodes]
    if not all(counts):
        return Missing(Cause.UNAVAILABLE, "NCCL needs NVIDIA GPUs on every machine", ask="--backend gloo")
    devices = {node.name: list(range(count)) for node, count in zip(cluster.nodes, counts, strict=True)}
    limits = {step: times * wanted.seconds for step, times in _STEPS.items()}
    task = {
        "device": "cuda" if backend == "nccl" else "cpu",
        "sizes": SIZES,
        "broadcast": BROADCAST,
        "pair_bytes": PAIR,
        "kernels": wanted.kernels,
        "limits": limits,
    }
    return _run(cluster.nodes, wanted, devices, task, (master, Change("nothing")))


def _run(
    nodes: Sequence[Node],
    wanted: Wanted,
    devices: Mapping[str, list[int]],
    task: Mapping[str, Any],
    how: tuple[str, Change],
) -> Run:
    """One run: on each machine as many ranks as it has devices to use."""
    master, change = how
    port, token = FIRST_PORT + secrets.randbelow(LAST_PORT - FIRST_PORT), secrets.token_hex(4)
    firsts = [0, *accumulate(len(devices[node.name]) for node in nodes)]
    jobs = []
    for node, first in zip(nodes, firsts, strict=False):
        own = devices[node.name]
        place = wanted.place(node)
        assert place is not None
        rdma = (
            task["device"] == "cuda"
            and isinstance(node.machine.rdma_nodes, Known)
            and bool(node.machine.rdma_nodes.value)
        )
        settings = {**wanted.environment, **change.environment.get(node.name, {})}
        given = {
            "first": first,
            "count": len(own),
            "devices": own,
            "world": firsts[-1],
            "env": {},
            "master": change.master or master,
            "port": port,
        }
        start = Start(place, f"canserve-preflight-{token}", task["device"] == "cuda", rdma, settings)
        jobs.append(Job(node, tuple(range(first, first + len(own))), start, {**task, **given}))
    backend = "nccl" if task["device"] == "cuda" else "gloo"
    return Run(tuple(jobs), backend, f"{change.master or master}:{port}", int(task["limits"]["whole"]))


def with_preflight(cluster: Cluster, wanted: Wanted, way: Way) -> Cluster:
    """The cluster with what a preflight recorded. Never raises for what a machine does."""
    run = prepared(cluster, wanted)
    if isinstance(run, Missing):
        return replace(cluster, preflight=run)
    if way.offline:
        why = Missing(Cause.UNREACHED, "nothing was started: offline", ask="without --offline")
        return replace(cluster, preflight=why)
    if way.tell is not None:
        way.tell(f"preflight: {sum(len(job.ranks) for job in run.jobs)} ranks on {len(run.jobs)} machines")
    with _interruptible() as stop:
        flight, looks = _started(run, cluster.nodes, way, stop)
        flight = replace(flight, asked=wanted.kernels)
        pair = suspects(flight)
        if pair is not None and not stop.is_set():
            trials = _trials(cluster, wanted, flight, pair, (way, stop))
            flight = replace(flight, trials=trials)
    return replace(cluster, preflight=Known(flight, looks))


def _started(
    run: Run, nodes: Sequence[Node], way: Way, stop: threading.Event
) -> tuple[Preflight, tuple[Evidence, ...]]:
    """Run it on all machines at once, and read what they recorded."""
    by_name = {node.name: node for node in nodes}

    def one(job: Job) -> tuple[Heard, Evidence]:
        section = Section("preflight", job.text, limit=4_000_000, live=True)
        look = asked(job.node, by_name, (section,), way, Limits(whole=run.seconds + 30.0, stop=stop.is_set))
        answer = look.section("preflight")
        how = f"{look.how}: a torch.distributed program in {job.start.place}"
        if not isinstance(answer, Answer):
            return Heard(job.node.name, job.ranks, "", answer.why, lost=True), Evidence(
                look.subject, how, answer.why, whole=False, when=look.when
            )
        trouble = complaint(answer.error) or answer.complaint if answer.status != 0 else ""
        lines = answer.text.count("\n")
        seen = Evidence(
            look.subject, how, f"{lines} records", whole=answer.whole and not trouble, when=look.when
        )
        return Heard(job.node.name, job.ranks, answer.text, trouble), seen

    heard = fanout(one, run.jobs, len(run.jobs))
    inside = tuple(str(job.start.place) for job in run.jobs)
    flight = preflight([each for each, _ in heard], inside, run.backend, run.master)
    return flight, tuple(look for _, look in heard)


def _trials(
    cluster: Cluster,
    wanted: Wanted,
    flight: Preflight,
    pair: tuple[Rank, Rank],
    control: tuple[Way, threading.Event],
) -> tuple[Trial, ...]:
    """The two alone, first as they were, then with one change after the other."""
    way, stop = control
    pair = (pair[0], pair[1]) if pair[0].number < pair[1].number else (pair[1], pair[0])
    nodes = [node for node in cluster.nodes if node.name in {rank.node for rank in pair}]
    devices: dict[str, list[int]] = {node.name: [] for node in nodes}
    for rank in pair:
        of_node = [other.number for other in flight.ranks if other.node == rank.node]
        devices[rank.node].append(of_node.index(rank.number))
    seconds = max(wanted.seconds // 2, 4)
    limits = {step: times * seconds for step, times in _STEPS.items()}
    limits |= {
        "meet": 2 * seconds,
        "head": 2 * seconds,
        "import": _STEPS["import"] * wanted.seconds,
        "start": _STEPS["start"] * wanted.seconds,
    }
    task = {
        "device": "cuda" if flight.backend == "nccl" else "cpu",
        "sizes": (8, 1 << 20),
        "broadcast": (),
        "pair_bytes": 1 << 20,
        "kernels": (),
        "limits": limits,
    }
    found = []
    for change in changes(flight, cluster, pair):
        if stop.is_set():
            break
        if way.tell is not None:
            way.tell(f"preflight: ranks {pair[0].number} and {pair[1].number} alone, {change.name} changed")
        master = _meeting(nodes) or flight.master.rpartition(":")[0]
        again, _ = _started(_run(nodes, wanted, devices, task, (master, change)), cluster.nodes, way, stop)
        still = [rank for rank in again.ranks if not rank.whole]
        stood = "; ".join(f"{rank.node} {rank.state} in {rank.phase}" for rank in still)
        found.append(Trial((pair[0].number, pair[1].number), change.name, not still, stood))
        if change.name == "nothing" and not still:
            break  # the two alone are well: no change could be said to help
    return tuple(found)


def _meeting(nodes: Sequence[Node]) -> str | None:
    """The head's address on the network that joins them."""
    if len(nodes) == 1:
        return "127.0.0.1"
    head = nodes[0]
    try:
        found = network(Reader(), nodes)
    except Unread:
        return head.ip
    if isinstance(found, Network):
        return str(found.ends[head.name].address.ip)
    interfaces = head.machine.interfaces
    every = advertised(interfaces.value if isinstance(interfaces, Known) else (), head.ip, head.interface)
    return next(iter(every), None)


def _gpus(node: Node) -> int:
    vendor, found = node.machine.vendor, node.machine.accelerators
    nvidia = isinstance(vendor, Known) and vendor.value == "nvidia"
    return len(found.value) if nvidia and isinstance(found, Known) else 0


@contextmanager
def _interruptible() -> Iterator[threading.Event]:
    """An event that Ctrl-C sets, so that every connection ends at once and with it what it started."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def interrupted(number: int, frame: FrameType | None) -> None:
        del number, frame
        stop.set()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)


def dry(run: Run, nodes: Sequence[Node]) -> str:
    """Exactly what would be run where: the command, and the script that it is given."""
    by_name = {node.name: node for node in nodes}
    parts = []
    for job in run.jobs:
        assert job.node.address is not None
        here = job.node.address == LOCAL
        route = ssh.Route(job.node.address, jumps(job.node, by_name))
        argv = ("/bin/sh",) if here else ssh.shell(route, Limits().connect, None)
        parts.append(f"# {job.node.name}: {' '.join(argv)}, with this as its input:\n{job.text}\n")
    return "\n".join(parts)
