"""The watcher over real processes on this machine: programs that write lines of real engines, and do what they say."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from canserve.api.deploying import prepare
from canserve.api.phases import phases_of
from canserve.api.running import Found
from canserve.api.watching import awaited
from canserve.api.wished import UpWishes
from canserve.plan.steps.stopping import stopping
from canserve.run.awaiting import Awaited, look_at
from canserve.run.executing import Hands, Stop, carry_out
from canserve.store.journal import Entry, Journal
from canserve.subjects.launch import Process
from canserve.subjects.outcome import Outcome
from canserve.subjects.progress import Outlook
from loopback import free_port
from made_plans import environment, saved

PLAYER = """\
#!/usr/bin/env python3
import http.server, os, socket, subprocess, sys, time
held = []
for line in open(sys.argv[sys.argv.index("--play") + 1]):
    word, _, rest = line.rstrip("\\n").partition(" ")
    if word == "say": print(rest, flush=True)
    elif word == "bar": print("\\r" + rest, end="", flush=True)
    elif word == "wait": time.sleep(float(rest))
    elif word == "exit": sys.exit(int(rest))
    elif word == "connect":
        s = socket.socket(); s.setblocking(False); s.connect_ex(("127.0.0.1", int(rest))); held.append(s)
    elif word == "child":
        code = "import ctypes,time; ctypes.CDLL(None).prctl(15, %r.encode(), 0, 0, 0); print('there', flush=True); time.sleep(10**6)"
        child = subprocess.Popen([sys.executable, "-c", code % rest], stdout=subprocess.PIPE); child.stdout.readline()
        print("child", child.pid, flush=True); held.append(child)
    elif word == "run": held.append(subprocess.Popen([sys.executable, rest]))
    elif word == "grow":
        for _ in range(10**6):
            held.append(b"x" * (32 << 20)); held[-2:-1] = [] ; held.append(bytearray(os.urandom(1)) * (24 << 20)); time.sleep(float(rest))
            if len(held) > 8: del held[:]
    elif word == "serve":
        status = int(rest)
        class H(http.server.BaseHTTPRequestHandler):
            def reply(self, status, body):
                self.send_response(status); self.send_header("Content-Length", str(len(body))); self.end_headers()
                self.wfile.write(body)
            def do_GET(self):
                self.reply(status, b'{"data": [{"id": "tiny model"}]}' if self.path == "/v1/models" else b"")
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                print("asked", body, flush=True)
                if "--broken" in sys.argv:
                    print("(EngineCore pid=2) ERROR 11-30 04:28:09 [core.py:1] Traceback (most recent call last):", flush=True)
                    print("(EngineCore pid=2) ERROR 11-30 04:28:09 [core.py:1] torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device", flush=True)
                self.reply(500 if "--broken" in sys.argv else 200, b'{"error": "no kernel image"}')
            def log_message(self, *_): pass
        http.server.HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), H).serve_forever()
time.sleep(10**6)
"""
ENGINE = (
    "(APIServer pid=1) INFO 11-30 04:27:09 [api_utils.py:286] non-default args: {'model_tag': '/m'}",
    "(EngineCore pid=2) INFO 11-30 04:27:41 [core.py:133] Initializing a V1 LLM engine (v0.32.0) with config: model='/m'",
)
JOINING = "(Worker pid={pid}) INFO 11-30 04:28:04 [parallel_state.py:1906] world_size={world} rank={rank} local_rank=0 distributed_init_method=tcp://10.0.0.1:29501 backend=gloo"
MET = "(Worker pid={pid}) INFO 11-30 04:28:04 [pynccl.py:70] vLLM is using nccl==2.27.5"
JOINED = "(Worker pid={pid}) INFO 11-30 04:41:14 [parallel_state.py:2350] rank {rank} in world size {world} is assigned as DP rank 0, PP rank 0"
LOADING = "Loading safetensors checkpoint shards:  {percent}% Completed | {done}/4 [00:00<00:03,  1.0s/it]"
READY = "INFO:     Application startup complete."


def joining(rank: int = 0, world: int = 1, pid: int = 3) -> str:
    return JOINING.format(rank=rank, world=world, pid=pid)


def said(*lines: str) -> list[str]:
    return [f"say {line}" for line in lines]


@dataclass
class Start:
    """A deployment whose processes play what they are given."""

    folder: Path
    port: int
    outlooks: list[Outlook] = field(default_factory=list)

    def begin(self, *plays: list[str], words: tuple[str, ...] = ()) -> None:
        """One process with one rank for each."""
        bin_ = Path(environment(self.folder, "vllm")) / "bin" / "vllm"
        bin_.write_text(PLAYER)
        processes = []
        for rank, play in enumerate(plays):
            path = self.folder / f"play-{rank}"
            path.write_text("\n".join(play) + "\n")
            more = (*words, *(("--headless",) if rank else ()))
            argv = ("vllm", "serve", "/m", "--port", str(self.port), "--play", str(path), *more)
            processes.append(Process("local", (rank,), argv, {}))
        plan = saved(self.folder / "plan.json", processes, build=str(self.folder / "venv"))
        self.it = prepare(str(plan), UpWishes(state=str(self.folder / "state")))
        self.journal = Journal(self.folder / "journal")
        self.journal.begin(self.it.deployment.run, "now", {})
        assert carry_out(self.it.steps, "up", self._hands()) == ()

    def _hands(self) -> Hands:
        nodes = {node.name: node for node in self.it.nodes}
        return Hands(self.it.deployment.run, nodes, self.journal)

    def outcome(self, seconds: float = 60.0, patience: float = 1.0, stop: Stop | None = None) -> Outcome:
        one = self.it
        asked = Awaited(
            one.deployment, one.nodes, one.plan, seconds, stop or Stop(), show=self.outlooks.append, patience=patience
        )  # fmt: skip
        return awaited(asked)

    def end(self) -> None:
        one = self.it.deployment
        steps = stopping(one.run, self.it.machines, one.program, one.state, "down")
        carry_out(steps, "down", self._hands(), whole=True)
        self.journal.close()

    def log(self, number: int = 0) -> str:
        return (self.folder / "state" / self.it.deployment.run / str(number) / "log").read_text()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    it = Start(tmp_path, free_port())
    yield it
    it.end()


def phases(outcome: Outcome, rank: int = 0) -> list[str]:
    (stage,) = [stage for stage in outcome.stages if stage.rank == rank]
    return [phase for phase, _ in stage.history]


def test_phases_until_it_answers(start: Start) -> None:
    bars = [
        line
        for done in range(5)
        for line in (f"bar {LOADING.format(percent=done * 25, done=done)}", "wait 0.6")
    ]
    start.begin(
        [
            *said(*ENGINE, joining(), JOINED.format(rank=0, world=1, pid=3)),
            *bars,
            "say",
            *said(READY),
            "serve 200",
        ]
    )
    found = start.outcome()
    assert found.state == "up" and found.told == (), found
    assert '"model": "tiny model"' in start.log() and phases(found)[-2:] == ["ready", "serving"]
    assert phases(found)[:7] == ["pending", "up", "launched", "engine", "connecting", "joined", "loading"]
    counts = {
        stage.words for outlook in start.outlooks for stage in outlook.stages if stage.phase == "loading"
    }
    assert counts & {f"weights {done} of 4" for done in range(5)}, counts


def test_status_says_how_far_each_rank_has_come(start: Start) -> None:
    bar = f"say {LOADING.format(percent=75, done=3)}"
    start.begin(
        [*said(*ENGINE, joining(0, 2), JOINED.format(rank=0, world=2, pid=3)), bar],
        said(*ENGINE, joining(1, 2)),
    )
    one = start.it.deployment
    told = {
        "engine": one.engine,
        "processes": [{"host": each.host, "ranks": each.ranks} for each in one.processes],
    }
    found = Found(
        one.run, Entry(one.run, "", "up", "", None, told), start.it.nodes, start.it.machines, "process", one.state, "",
        look_at(one, start.it.nodes),
    )  # fmt: skip
    end = time.monotonic() + 60
    while (phases := phases_of((found,))[one.run]) != {
        0: ("rank 0: weights 3 of 4",),
        1: ("rank 1: ranks joining",),
    }:
        assert time.monotonic() < end, phases
        time.sleep(0.2)


@pytest.mark.slow
def test_a_port_that_answers_with_an_error_is_not_ready(start: Start) -> None:
    start.begin([*said(*ENGINE, READY), "serve 503"])
    found = start.outcome(seconds=6)
    assert found.state == "starting" and "nothing answers yet" in found.why


@pytest.mark.slow
def test_a_first_request_that_fails_is_a_failure(start: Start) -> None:
    start.begin([*said(*ENGINE, READY), "serve 200"], words=("--broken",))
    found = start.outcome()
    assert found.state == "failed" and "HTTP 500" in found.why and "no kernel image" in found.why, found
    assert (
        "torch.AcceleratorError: CUDA error: no kernel image" in found.why and found.kind == "gpu-code-arch"
    ), found
    assert phases(found)[-1] == "ready"


def test_ranks_that_wait_for_each_other_are_named(start: Start) -> None:
    start.begin(said(*ENGINE, joining(0, 3)), said(*ENGINE, joining(1, 3)))
    found = start.outcome(patience=0.05)
    assert (found.state, found.name, found.kind) == ("stalled", "rank-missing", "multi-node-and-collectives")
    assert "rank 2 of 3" in found.why and found.fix and found.hint
    assert [line.split(" on ")[0] for line in found.told] == ["rank 0", "rank 1"]
    assert all("ranks joining for" in line for line in found.told), found.told


@contextmanager
def full() -> Iterator[int]:
    """A port that takes no connection more, so that who connects gets no answer."""
    with (
        closing(socket.socket()) as listening,
        closing(socket.socket()) as first,
        closing(socket.socket()) as other,
    ):
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        port = listening.getsockname()[1]
        for each in (first, other):
            each.setblocking(False)
            each.connect_ex(("127.0.0.1", port))
        time.sleep(0.2)
        yield port


@pytest.mark.slow
def test_a_connection_that_gets_no_answer_is_named(start: Start) -> None:
    with full() as port:
        start.begin(said(*ENGINE, joining(0, 2)), [*said(*ENGINE, joining(1, 2)), f"connect {port}"])
        found = start.outcome(patience=0.05)
    assert (found.state, found.name) == ("stalled", "ranks-cannot-connect"), found
    assert f"127.0.0.1:{port}" in found.why


STANDING = """\
import time
class MessageQueue:
    def wait_until_ready(self):
        time.sleep(10**6)
print("stands", flush=True)
MessageQueue().wait_until_ready()
"""


@pytest.mark.slow
def test_where_nothing_was_said_stacks_tell(start: Start) -> None:
    assert Path(sys.executable).with_name("py-spy").exists(), "pip install py-spy"
    module = start.folder / "shm_broadcast.py"
    module.write_text(STANDING)
    beside = Path(environment(start.folder, "vllm")) / "bin" / "py-spy"
    beside.symlink_to(Path(sys.executable).with_name("py-spy"))
    plays = [[*said(*ENGINE, joining(rank, 2), MET.format(pid=3)), f"run {module}"] for rank in range(2)]
    start.begin(*plays)
    found = start.outcome(patience=0.05)
    assert (found.state, found.name) == ("stalled", "queue-address-unreachable"), found


@pytest.mark.slow
def test_what_moves_is_never_said_to_stand(start: Start) -> None:
    start.begin([*said(*ENGINE, joining()), "grow 0.3"])
    found = start.outcome(seconds=15, patience=0.05)  # a budget of 3 s
    assert found.state == "starting", found
    assert "memory changed" in {stage.sign for outlook in start.outlooks for stage in outlook.stages}


def test_lines_that_only_wait_are_no_life(start: Start) -> None:
    waiting = "(EngineCore pid=2) INFO [ray_utils.py:467] Waiting for creating a placement group of specs for {} seconds."
    lines = [line for n in range(40) for line in (f"say {waiting.format(n)}", "wait 0.3")]
    start.begin([*said(*ENGINE, "(EngineCore pid=2) INFO Creating a new placement group."), *lines])
    found = start.outcome(patience=0.05)
    assert (found.state, found.name) == ("stalled", "ray-lacks-gpus"), found


def test_a_rank_that_ends_is_seen_with_its_own_error(start: Start) -> None:
    parent = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
    own = "(Worker pid=3) ERROR 11-30 04:28:09 [multiproc_executor.py:870] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 8.00 GiB"
    start.begin(
        said(*ENGINE, joining(0, 2)), [*said(*ENGINE, joining(1, 2)), "wait 3", *said(own, parent), "exit 1"]
    )
    found = start.outcome()
    assert found.state == "failed" and found.why.startswith(
        "local: process 1 exited with 1: torch.OutOfMemoryError"
    ), found
    assert found.kind == "memory" and found.fix and found.because


def test_a_peer_that_is_seen_to_end_first_does_not_hide_why(start: Start) -> None:
    line = "(Worker pid=3) ERROR 11-30 04:28:09 [m.py:870] {}"
    peer = line.format(
        "RuntimeError: [gloo/transport/tcp/pair.cc:538] Connection closed by peer [10.77.1.2]:29501"
    )
    own = line.format("OSError: [Errno 98] Address already in use: ('0.0.0.0', 8123)")
    start.begin(
        [*said(*ENGINE, joining(0, 2)), "wait 5", *said(own), "wait 2", "exit 1"],
        [*said(*ENGINE, joining(1, 2)), "wait 3", *said(peer), "exit 1"],
    )
    found = start.outcome()
    assert found.state == "failed" and "Address already in use" in found.why, found
    assert found.why.startswith("local: process 0 "), found


def test_a_worker_that_is_killed_is_seen_though_its_parent_lives(start: Start) -> None:
    start.begin([*said(*ENGINE), "child VLLM::Worker_TP0", *said(joining())])
    killed = list[float]()

    def kill() -> None:
        end = time.monotonic() + 60
        while time.monotonic() < end and not any(
            o.stages[0].phase == "connecting" for o in list(start.outlooks)[:-1]
        ):
            time.sleep(0.1)
        pid = int(start.log().partition("child ")[2].split()[0])
        killed.append(time.monotonic())
        os.kill(pid, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    found = start.outcome(seconds=90)
    killer.join()
    assert found.state == "failed" and "lost VLLM::Worker_TP" in found.why, found
    assert killed


def test_a_start_that_is_stopped_ends_at_once(start: Start) -> None:
    start.begin(said(*ENGINE))
    stop = Stop()
    threading.Timer(2, stop).start()
    assert start.outcome(seconds=100, stop=stop).state == "interrupted"
