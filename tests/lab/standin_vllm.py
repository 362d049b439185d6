"""An engine that is none, for one or two hosts: it says what vLLM says at every step, really waits for its peer, and serves.

This file is what runs in the image. A file ``hold-PHASE`` in the folder that it is given as its model makes a rank stay in
that phase, ``fail-PHASE`` makes it end there with the words in it. Ranks of one deployment are joined by a real connection:
who loses it ends, as with gloo, and who only hears nothing more waits.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from datetime import datetime
from http.server import ThreadingHTTPServer
from pathlib import Path

PHASES = ("engine", "joining", "communicator", "weights", "memory", "ready")
QUEUE = 29611
"""Port of the head's message queue: others connect to the address that it announces."""
SHARDS = 4
SAYS = {
    "engine": (
        ("APIServer", "api_utils.py:347", "       █▄   ▄█ version 0.17.1"),
        ("APIServer", "model.py:733", "Resolved architecture: Qwen3_5MoeForConditionalGeneration"),
        ("EngineCore", "core.py:133", "Initializing a V1 LLM engine (v0.17.1) with config: model='{model}'"),
        (
            "EngineCore", "multiproc_executor.py:153",
            "DP group leader: node_rank=0, node_rank_within_dp=0, master_addr={master}, mq_connect_ip={told} (local), "
            "world_size={world}, local_world_size=1",
        ),
    ),
    "engine-headless": (
        (
            "MainProcess", "serve.py:224",
            "Launching vLLM (v0.17.1) headless multiproc executor, with head node address {master}:{port} for "
            "torch.distributed process group.",
        ),
    ),
    "joining": (
        (
            "Worker", "parallel_state.py:1906",
            "world_size={world} rank={rank} local_rank=0 distributed_init_method=tcp://{master}:{port} backend=gloo",
        ),
    ),
    "communicator": (
        (
            "Worker", "cpu_communicator.py:47",
            "CPU SHM communicator disabled for group tp:0: ranks do not share the same SHM group name, falling back to "
            "torch.distributed.",
        ),
    ),
    "met": (
        (
            "Worker", "parallel_state.py:2350",
            "rank {rank} in world size {world} is assigned as DP rank 0, PP rank 0, PCP rank 0, TP rank {rank}, "
            "ETP rank {rank}, EP rank N/A, EPLB rank N/A",
        ),
    ),
    "weights": (("Worker_TP{rank}", "cpu_model_runner.py:68", "Starting to load model {model}..."),),
    "loaded": (("Worker_TP{rank}", "default_loader.py:501", "Loading weights took 0.02 seconds"),),
    "memory": (
        (
            "EngineCore", "kv_cache_utils.py:2327",
            "CPU KV cache size: 131,072 tokens, Maximum concurrency for 1,024 tokens per request: 128.00x",
        ),
        ("EngineCore", "core.py:402", "init engine (profile, create kv cache, warmup model) took 0.13 s"),
    ),
    "ready": (("APIServer", "entry.py:140", "Starting vLLM server on http://0.0.0.0:{api}"),),
}  # fmt: skip
"""Phase -> who, where, what: as vLLM 0.32 writes it on processors."""
STARTED = """\
INFO:     Started server process [1]
INFO:     Waiting for application startup.
INFO:     Application startup complete.
"""
CORE_FAILED = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"


class Rank:
    """One process of a deployment."""

    def __init__(self, words: list[str]) -> None:
        options = dict(_pairs(words[2:]))
        self.model = words[1]
        self.number = int(options.get("--node-rank", "0"))
        self.world = int(options.get("--nnodes", "1"))
        self.master = (options.get("--master-addr", "127.0.0.1"), int(options.get("--master-port", "0")))
        self.api = int(options.get("--port", "8000"))
        self.told = os.environ.get("VLLM_HOST_IP", self.master[0])
        """The address of the queue: the head announces it."""
        self.peer: socket.socket | None = None
        self.heard = 0
        self.met = threading.Condition()

    def say(self, what: str, level: str = "INFO") -> None:
        """The lines of a phase."""
        for who, where, text in SAYS[what]:
            self.write(who, where, text, level)

    def write(self, who: str, where: str, text: str, level: str) -> None:
        """A line as vLLM writes it."""
        known = {
            "model": self.model, "master": self.master[0], "port": self.master[1], "told": self.told,
            "world": self.world, "rank": self.number, "api": self.api,
        }  # fmt: skip
        for name, value in known.items():
            text, who = text.replace(f"{{{name}}}", str(value)), who.replace(f"{{{name}}}", str(value))
        when = datetime.now().strftime("%m-%d %H:%M:%S")
        sys.stderr.write(f"({who} pid={os.getpid()}) {level} {when} [{where}] {text}\n")
        sys.stderr.flush()

    def stay(self, phase: str) -> None:
        """For as long as it is to be held there; or end."""
        if (cause := Path(self.model, f"fail-{phase}")).exists():
            self.fail(cause.read_text().strip())
        while Path(self.model, f"hold-{phase}").exists():
            time.sleep(0.1)

    def fail(self, why: str) -> None:
        """As a worker dies: its own error first, then what those above it say of that."""
        frame = '  File "/opt/vllm/vllm/v1/executor/multiproc_executor.py", line 845, in worker_main'
        for line in ("WorkerProc hit an exception.", "Traceback (most recent call last):", frame, why):
            self.write("Worker_TP{rank}", "multiproc_executor.py:852", line, "ERROR")
        if self.number == 0:
            self.write("APIServer", "utils.py:1404", CORE_FAILED, "ERROR")
        os._exit(1)

    def meet(self) -> None:
        """Wait until the peer has come as far."""
        if self.peer is None:
            return
        self.peer.sendall(b".")
        with self.met:
            self.heard -= 1
            self.met.wait_for(lambda: self.heard >= 0)

    def listen(self) -> None:
        """Whoever is left alone ends."""
        assert self.peer is not None
        why = "Connection closed by peer"
        try:
            while got := self.peer.recv(64):
                with self.met:
                    self.heard += len(got)
                    self.met.notify_all()
        except OSError as error:
            why = str(error)
        where = "[../third_party/gloo/gloo/transport/tcp/pair.cc:538]"
        self.fail(f"RuntimeError: {where} {why} [{self.master[0]}]:{self.master[1]}")

    def engine(self) -> None:
        self.say("engine-headless" if self.number else "engine")

    def joining(self) -> None:
        self.say("joining")
        if self.world == 1:
            return
        if self.number == 0:
            with socket.create_server(self.master) as server:
                self.peer, _ = server.accept()
            self.peer.sendall(self.told.ljust(32).encode())
        else:
            self.peer = _connected(self.master)
            self.told = self.peer.recv(32, socket.MSG_WAITALL).decode().strip()
        threading.Thread(target=self.listen, daemon=True).start()

    def communicator(self) -> None:
        self.say("communicator")
        if self.world == 1:
            return
        if self.number == 0:
            socket.create_server(("0.0.0.0", QUEUE)).accept()
        else:
            _connected((self.told, QUEUE))
        self.meet()
        self.say("met")

    def weights(self) -> None:
        self.say("weights")
        for shard in range(SHARDS + 1):
            done = f"{shard * 100 // SHARDS:3d}% Completed | {shard}/{SHARDS} [00:00<00:00, 9.97it/s]"
            sys.stderr.write(f"\rLoading safetensors checkpoint shards: {done}")
        sys.stderr.write("\n")
        self.say("loaded")
        self.meet()

    def memory(self) -> None:
        if self.number == 0:
            self.say("memory")
        self.meet()

    def ready(self) -> None:
        """The API on the head; nothing on others."""
        if self.number:
            while True:
                signal.pause()
        from stub_server import Handler, Stub

        Handler.stub = Stub(model=self.model)
        server = ThreadingHTTPServer(("0.0.0.0", self.api), Handler)
        self.say("ready")
        sys.stderr.write(STARTED)
        sys.stderr.flush()
        server.serve_forever()


def _pairs(words: list[str]) -> list[tuple[str, str]]:
    return [
        (word, after) for word, after in zip(words, [*words[1:], ""], strict=True) if word.startswith("--")
    ]


def _connected(where: tuple[str, int]) -> socket.socket:
    while True:
        try:
            return socket.create_connection(where)
        except OSError:
            time.sleep(0.2)


def main() -> None:
    """``vllm serve MODEL --OPTION VALUE ...``."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    rank = Rank(sys.argv[1:])
    for phase in PHASES:
        rank.stay(phase)
        getattr(rank, phase)()


if __name__ == "__main__":
    main()
