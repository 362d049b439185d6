"""Hosts by the thousand that are none: each answers the scripts that canserve sends, from a state of its own.

It knows the words that ``commands`` writes by what writes them; a step that it does not know it refuses.
"""

from __future__ import annotations

import re
import shlex
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from canserve.commands import claims, removal
from canserve.facts import Cause, Known, Missing
from canserve.plan.plan import Plan
from canserve.subjects.launch import Process, Start
from canserve.subjects.parallel import Parallel, Placement, Rank
from canserve.transport.links import LINKS
from canserve.transport.running import Ran

ENDING = ".simulated"
_SECTION = re.compile(rb"^s_([a-z0-9_]+)\(\) [({]\n(.*?)\n[)}]\n(?=s_|main\(\) )", re.DOTALL | re.MULTILINE)
_PLACE, _CLAIM = claims.place("")[2], claims.claim("", "", "")[2]
_NOTE, _FREE = claims.note("", "")[2], claims.free(1)[2]
_END, _RELEASE = removal.processes("", "")[2], removal.release("", "")[2]
_PORT = re.compile(r":([0-9a-f]{4}) ")


@dataclass(frozen=True)
class Fate:
    """What becomes of a process, in seconds after its start."""

    lines: Sequence[tuple[float, str]] = ()
    """What it writes, and when."""
    ready: float | None = None
    """When its API answers; None: never."""
    dies: float | None = None
    code: int = 1


@dataclass
class Session:
    """One process that runs, or has."""

    folder: str
    words: tuple[str, ...]
    began: float
    fate: Fate


@dataclass
class Host:
    """One host."""

    name: str
    fate: Fate = field(default_factory=Fate)
    reached: bool = True
    locks: dict[str, str] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)
    audit: list[str] = field(default_factory=list)
    sessions: dict[str, Session] = field(default_factory=dict)
    """By folder."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def left(self) -> list[str]:
        """What of any deployment is on it."""
        return [*self.locks, *self.folders, *self.sessions]

    def step(self, argv: Sequence[str], now: float) -> tuple[int, str]:
        """One step of ``up`` or ``down``."""
        match list(argv):
            case ["sh", "-c", text, _] if text == _PLACE:
                return 0, ""
            case ["sh", "-c", text, said, path] if text == _CLAIM:
                holder = self.locks.setdefault(path, said)
                return (0, "") if holder == said else (1, holder)
            case ["sh", "-c", text, line, _] if text == _NOTE:
                self.audit.append(line)
                return 0, ""
            case ["sh", "-c", text, port] if text == _FREE:
                return int(self._listens(port, now)), ""
            case ["grep", "-q", "-s", "-i", port, *_]:
                return int(not self._listens(port, now)), ""
            case ["test", _, _]:
                return 0, ""
            case ["mkdir", "-m", "755", "--", folder]:
                there = folder in self.folders
                self.folders.add(folder)
                return int(there), ""
            case ["env", *words] if "setsid" in words:
                return self._start(words, now)
            case ["sh", "-c", text, run, _, _] if text == _END:
                self.sessions = {path: one for path, one in self.sessions.items() if f"/{run}/" not in path}
                return 0, ""
            case ["sh", "-c", text, run, state] if text == _RELEASE:
                self.locks = {
                    path: said for path, said in self.locks.items() if not said.startswith(f"{run} ")
                }
                mine = f"{state}/{run}"
                self.folders = {
                    path
                    for path in self.folders
                    if path != mine and not path.startswith((f"{mine}/", f"{mine}."))
                }
                return 0, ""
            case ["sh", "-c", _, *words]:  # whatever else is written below the folder of runs is there then
                self.folders |= {word for word in words if word.startswith("/") and word.endswith(".json")}
                return 0, ""
            case _:
                return 127, f"a simulated host does not know {shlex.join(argv)[:200]}"

    def _start(self, words: Sequence[str], now: float) -> tuple[int, str]:
        at = words.index("setsid")
        folder = words[at + 5]
        self.sessions[folder] = Session(folder, tuple(words[at + 7 :]), now, self.fate)
        return 0, ""

    def _listens(self, row: str, now: float) -> bool:
        found = _PORT.match(row)
        return found is not None and any(
            self._open(one, int(found[1], 16), now) for one in self.sessions.values()
        )

    def _open(self, one: Session, port: int, now: float) -> bool:
        ready = one.fate.ready is not None and now - one.began >= one.fate.ready and not _dead(one, now)
        told = one.words[one.words.index("--port") + 1] if "--port" in one.words else ""
        return ready and told == str(port)

    def look(self, name: str, script: str, now: float) -> tuple[int, str]:
        """A section of a look."""
        match name.partition("_"):
            case ("claims", _, _):
                lines = (
                    f"{path.rpartition('/')[2].removesuffix('.lock')} {said}"
                    for path, said in self.locks.items()
                )
                return 0, "".join(f"{line}\n" for line in lines)
            case ("processes", _, _):
                return 0, "".join(f"{_line(one, now)}\n" for one in self.sessions.values())
            case ("log", _, number):
                first = int(re.search(r"tail -c \+(\d+)", script)[1])  # type: ignore[index]
                found = (one for one in self.sessions.values() if one.folder.endswith(f"/{number}"))
                return 0, next((_log(one, now) for one in found), "")[first - 1 :]
            case ("tree", _, _):
                return 0, "clock 100\npage 4096\n" + "".join(
                    f"{one.folder.rpartition('/')[2]} {4000 + n} 0 0 1 S 0 100 100 VLLM::Worker\n"
                    for n, one in enumerate(self.sessions.values())
                    if not _dead(one, now)
                )
            case ("answer", _, _):
                port = int(re.search(r":(\d+)/", script)[1])  # type: ignore[index]
                up = any(self._open(one, port, now) for one in self.sessions.values())
                return (0, "200\n") if up else (7, "000\n")
            case (
                ("ports" | "gpu" | "memory" | "shared" | "sockets" | "states" | "counters" | "stacks"),
                _,
                _,
            ):
                return 0, ""
            case _:
                return 127, f"a simulated host does not know the question {name}"


def _dead(one: Session, now: float) -> bool:
    return one.fate.dies is not None and now - one.began >= one.fate.dies


def _log(one: Session, now: float) -> str:
    return "".join(f"{line}\n" for at, line in one.fate.lines if now - one.began >= at)


def _line(one: Session, now: float) -> str:
    _, _, run, number = one.folder.rsplit("/", 3)
    state, code = ("dead", str(one.fate.code)) if _dead(one, now) else ("alive", "")
    last = _log(one, now).rstrip("\n").rpartition("\n")[2]
    return "\t".join((run, number, state, code, one.folder, last))


@dataclass
class Counts:
    """What the hosts noticed of whoever asks them."""

    calls: int = 0
    now: int = 0
    most: int = 0
    """Connections at once."""
    starting: dict[str, int] = field(default_factory=dict)
    most_starting: int = 0
    """Connections that began at once at one sshd: at a jump host, those of all that lie behind it."""


class Fleet:
    """All hosts, and the link that leads to them."""

    def __init__(self, names: Sequence[str], seconds: float = 0.0) -> None:
        """``seconds``: how long each takes to answer."""
        self.hosts = {name: Host(name) for name in names}
        self.counts = Counts()
        self._seconds = seconds
        self._lock = threading.Lock()

    @contextmanager
    def reached(self) -> Iterator[Fleet]:
        """For as long as this lasts."""
        with LINKS.leading(ENDING, self):
            yield self

    def run(
        self,
        argv: Sequence[str],
        given: bytes,
        seconds: float,
        complete: Callable[[bytearray], bool],
        most: int,
    ) -> Ran:
        """In place of ssh."""
        words = list(argv)
        destination = words[words.index("--") + 1]
        jump = words[words.index("-J") + 1] if "-J" in words else destination
        with self._connected(jump) as begun:
            time.sleep(self._seconds)
            host = self.hosts[destination.removesuffix(ENDING)]
            if not host.reached:
                talk = f"ssh: connect to host {host.name} port 22: Connection timed out\n"
                return Ran(tuple(argv), b"", talk, 255, None)
            mark = given[given.index(b"MARK=") + 5 : given.index(b";")]
            out = bytearray(b"\n" + mark + b" hello\n")
            complete(out)
            begun()
            now = time.monotonic()
            with host.lock:
                for name, script in _SECTION.findall(given):
                    status, text = self._section(host, name.decode(), script.decode(), now)
                    out += b"\n%s begin %s\n%s" % (mark, name, text.encode() if status != 127 else b"")
                    error = text.encode() if status == 127 else b""
                    out += b"\n%s exit %s %d\n%s\n%s end %s\n" % (mark, name, status, error, mark, name)
            out += b"\n" + mark + b" bye\n"
            assert len(out) <= most
            complete(out)
            return Ran(tuple(argv), bytes(out), "", 0, None)

    def _section(self, host: Host, name: str, script: str, now: float) -> tuple[int, str]:
        if name == "step":
            return host.step(shlex.split(script), now)
        return host.look(name, script, now)

    def pour(self, destination: str, argv: Sequence[str]) -> bytes:
        """A whole log."""
        host = self.hosts[destination.removesuffix(ENDING)]
        if not host.reached:
            raise OSError("Connection timed out")
        folder = next(word for word in argv if word.startswith("/")).removesuffix("/log")
        with host.lock:
            one = host.sessions.get(folder)
            return b"" if one is None else _log(one, time.monotonic()).encode()

    @contextmanager
    def _connected(self, sshd: str) -> Iterator[Callable[[], None]]:
        counts = self.counts
        with self._lock:
            counts.calls += 1
            counts.now += 1
            counts.most = max(counts.most, counts.now)
            counts.starting[sshd] = counts.starting.get(sshd, 0) + 1
            counts.most_starting = max(counts.most_starting, counts.starting[sshd])
        waiting = [sshd]

        def begun() -> None:
            with self._lock:
                if waiting:
                    counts.starting[waiting.pop()] -= 1

        try:
            yield begun
        finally:
            begun()
            with self._lock:
                counts.now -= 1

    def left(self) -> Mapping[str, list[str]]:
        """What of any deployment is left, by host."""
        return {name: left for name, host in self.hosts.items() if (left := host.left())}


def healthy(rank: int, world: int, ready: float | None = None, until: str = "") -> Fate:
    """A rank's start, in lines of a real engine. ``until``: the phase after which it writes nothing more."""
    lines: list[tuple[float, str, str]] = [
        (0.0, "launched", "INFO 11-30 14:40:00 [utils.py:253] non-default args: {'model': '/models/tiny'}"),
        (0.1, "connecting", f"INFO 11-30 14:40:01 [parallel_state.py:1] world_size={world} rank={rank} local_rank=0 "
                            "distributed_init_method=tcp://10.0.0.1:29501 backend=nccl"),
        (0.2, "met", "INFO 11-30 14:40:02 [pynccl.py:111] vLLM is using nccl==2.28.9"),
        (0.3, "loading", "INFO 11-30 14:40:03 [gpu_model_runner.py:1] Starting to load model /models/tiny..."),
        (0.4, "loaded", "INFO 11-30 14:40:04 [default_loader.py:1] Loading weights took 0.10 seconds"),
    ]  # fmt: skip
    phases = [phase for _, phase, _ in lines]
    kept = lines[: phases.index(until) + 1] if until else lines
    return Fate([(at, line) for at, _, line in kept], ready)


def names(count: int) -> tuple[str, ...]:
    """Of hosts, as they are named on a command line."""
    return tuple(f"host-{number:04d}{ENDING}" for number in range(count))


def fleet(count: int, seconds: float = 0.0) -> Fleet:
    """Hosts that start well: the first answers when all have had time to load."""
    made = Fleet([name.removesuffix(ENDING) for name in names(count)], seconds)
    for rank, host in enumerate(made.hosts.values()):
        host.fate = healthy(rank, count, ready=0.5 if rank == 0 else None)
    return made


def plan(count: int) -> Plan:
    """One rank on each host, joined by the engine's own launcher."""
    nodes = ("--nnodes", str(count), "--master-addr", "10.0.0.1", "--master-port", "29501")
    hosts = names(count)
    processes = tuple(
        Process(
            host,
            (rank,),
            ("vllm", "serve", "/models/tiny", *nodes, "--node-rank", str(rank), "--port", "8000")
            + (("--headless",) if rank else ()),
            {"VLLM_HOST_IP": f"10.0.{rank // 250}.{rank % 250 + 1}"},
        )
        for rank, host in enumerate(hosts)
    )
    ranks = tuple(Rank(rank, rank % 8, rank // 8, 0, host, 0) for rank, host in enumerate(hosts))
    unknown = Missing(Cause.UNREACHED, "not reckoned")
    return Plan(
        model="/models/tiny", build="/srv/venv", engine="vllm", version="", options={}, findings=(),
        placement=Placement(Parallel(tp=8, pp=max(count // 8, 1)), ranks, (1,) * max(count // 8, 1)),
        serving=unknown, speed=unknown, start=Known(Start(processes)),
    )  # fmt: skip
