"""One rank of a preflight: every step it takes up to its end, each told when it begins and when it is done.

Part of the program's text, which is sent to machines: it needs nothing but torch, and imports nothing of canserve.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import socket
import struct
import sys
import time
from contextlib import suppress
from typing import Any

MARK = "canserve-record "
SIOCGIFADDR = 0x8915
"""Linux's number of the question for an interface's address."""


class Step:
    """A step with a name: told when it begins and when it is done; an exception tells the rest."""

    def __init__(self, rank: int, name: str) -> None:
        self.rank, self.name = rank, name
        self.more: dict[str, Any] = {}

    def __enter__(self) -> Step:
        tell({"rank": self.rank, "step": self.name, "state": "begin"})
        self.began = time.perf_counter()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            seconds = round(time.perf_counter() - self.began, 4)
            tell({"rank": self.rank, "step": self.name, "state": "done", "s": seconds, **self.more})


def tell(record: dict[str, Any]) -> None:
    """To the supervisor; a line of its own, whatever a library was printing."""
    os.write(1, ("\n" + MARK + json.dumps(record) + "\n").encode())


def follow_parent() -> None:
    """Whatever becomes of the supervisor, this process goes with it. Stacks are shown when it asks."""
    import ctypes

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    faulthandler.register(signal.SIGUSR1, all_threads=False)


def interface_address(name: str) -> str | None:
    """IPv4 address of an interface."""
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            found = fcntl.ioctl(asked.fileno(), SIOCGIFADDR, struct.pack("256s", name[:15].encode()))
        except OSError:
            return None
    return socket.inet_ntoa(found[20:24])


def own_address() -> tuple[str, str]:
    """The address that gloo takes, and why: its interface by name, else what the host's own name stands for."""
    name = os.environ.get("GLOO_SOCKET_IFNAME", "").split(",")[0]
    if name:
        return interface_address(name) or "none", name
    for *_, place in suppressed_lookup(socket.gethostname()):
        address = str(place[0])
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as tried:
            try:
                tried.bind((address, 0))
            except OSError:
                continue
        return address, "the host's name"
    return "127.0.0.1", "the host's name stands for no address of its own"


def suppressed_lookup(name: str) -> list[Any]:
    """Addresses of a name; none where it stands for none."""
    try:
        return list(socket.getaddrinfo(name, None, type=socket.SOCK_STREAM))
    except OSError:
        return []


def reached(address: str, port: int) -> str:
    """What becomes of a plain connection."""
    try:
        socket.create_connection((address, port), 4.0).close()
    except TimeoutError:
        return "silent"
    except ConnectionRefusedError:
        return "refused"
    except OSError as error:
        return error.strerror or "failed"
    return "ok"


def await_head(task: dict[str, Any]) -> None:
    """Until the first rank listens. One whose torch starts later refuses that long: the way to it is free.

    Where no answer comes at all the next step, whose time is short, stands for it.
    """
    silent = 0
    while silent < 2:
        found = reached(task["master"], task["port"])
        if found == "ok":
            return
        silent += found != "refused"
        time.sleep(0.2)


def exchange(store: Any, rank: int, world: int) -> dict[str, Any]:
    """Where every rank will be found, and whether a plain connection gets there from here."""
    address, why = own_address()
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as listener:
        with suppress(OSError):
            listener.bind((address, 0))
        listener.listen(world + 8)
        store.set(f"at{rank}", json.dumps([address, listener.getsockname()[1]]))
        found = {}
        for other in range(world):
            if other != rank:
                found[str(other)] = reached(*json.loads(store.get(f"at{other}")))
        store.set(f"tried{rank}", "1")
        for other in range(world):
            store.get(f"tried{other}")
    return {"address": address, "interface": why, "reached": found}


def meet(store: Any, rank: int, world: int, name: str) -> None:
    """Until every rank was here; says who is missing whenever that changes."""
    store.set(f"{name}{rank}", "1")
    absent, told = list(range(world)), None
    while absent:
        absent = [other for other in absent if not store.check([f"{name}{other}"])]
        if absent and absent != told:
            tell({"rank": rank, "step": name, "state": "waits", "absent": absent})
            told = absent
        time.sleep(0.1 if absent else 0.0)


def join(task: dict[str, Any], rank: int, local: int) -> tuple[Any, Any]:
    """Up to a group of processes that can talk; torch's module for it, and the device."""
    world, limits = task["world"], task["limits"]
    with Step(rank, "import") as step:
        import torch
        import torch.distributed as dist

        step.more = {
            "torch": torch.__version__,
            "python": sys.version.split()[0],
            "host": socket.gethostname(),
        }
    with Step(rank, "device") as step:
        cuda = task["device"] == "cuda"
        if cuda:
            torch.cuda.set_device(task["devices"][local])
            torch.zeros(1, device="cuda")
            step.more = {
                "name": torch.cuda.get_device_name(),
                "capability": list(torch.cuda.get_device_capability()),
                "cuda": torch.version.cuda,
                "nccl": ".".join(map(str, torch.cuda.nccl.version())),
            }
        device = torch.device("cuda", task["devices"][local]) if cuda else torch.device("cpu")
        torch.set_num_threads(1)
    from datetime import timedelta

    limit = timedelta(seconds=limits["whole"])  # the supervisor ends a step long before torch does
    if rank:
        with Step(rank, "head"):
            await_head(task)
    with Step(rank, "store"):
        store = dist.TCPStore(task["master"], task["port"], world, rank == 0, limit, False)
        store.set(f"hello{rank}", "1")
    with Step(rank, "meet"):
        meet(store, rank, world, "meet")
    backend = "nccl" if cuda else "gloo"
    if not cuda:
        with Step(rank, "bootstrap") as step:
            step.more = exchange(store, rank, world)
    with Step(rank, "connect") as step:
        step.more = {"backend": backend}
        # With its device torch makes the communicator now, and not with the first collective.
        more = {"device_id": device} if cuda else {}
        dist.init_process_group(backend, store=dist.PrefixStore("group", store), rank=rank, world_size=world, timeout=limit, **more)  # fmt: skip
    with Step(rank, "first") as step:
        one = torch.ones(1, device=device)
        dist.all_reduce(one)
        step.more = {"right": float(one.item()) == float(world)}
    return dist, device


class Timed:
    """Collectives, timed; every rank knows the slowest one's time and so decides alike."""

    def __init__(self, dist: Any, device: Any, rank: int, task: dict[str, Any]) -> None:
        import torch

        self.torch, self.dist, self.device, self.rank, self.task = torch, dist, device, rank, task
        self.last = (0, 0.0)

    def sync(self) -> None:
        """What was begun on the device is done."""
        if self.device.type == "cuda":
            self.torch.cuda.synchronize()

    def once(self, what: Any, times: int) -> float:
        """Seconds for one, of the slowest rank."""
        self.sync()
        began = time.perf_counter()
        for _ in range(times):
            what()
        self.sync()
        spent = self.torch.tensor(
            [(time.perf_counter() - began) / times], device=self.device, dtype=self.torch.float64
        )
        self.dist.all_reduce(spent, op=self.dist.ReduceOp.MAX)
        return float(spent.item())

    def collective(self, name: str, size: int) -> None:
        """One size: whether the result is right, and how long one takes."""
        bytes_before, seconds_before = self.last
        expected = seconds_before * size / bytes_before if bytes_before else 0.0
        if expected > self.task["limits"]["other"] / 6:
            tell(
                {
                    "rank": self.rank,
                    "step": f"{name} {size}",
                    "state": "left out",
                    "said": f"it would take {expected:.0f} s",
                }
            )
            return
        with Step(self.rank, f"{name} {size}") as step:
            data = self.torch.full((max(size // 4, 1),), float(self.rank + 1), device=self.device)
            call = (
                (lambda: self.dist.broadcast(data, 0))
                if name == "broadcast"
                else (lambda: self.dist.all_reduce(data))
            )
            first = self.once(call, 1)
            world = self.task["world"]
            want = 1.0 if name == "broadcast" else world * (world + 1) / 2
            right = bool((data == want).all().item())
            data.zero_()
            times = 20 if first < 0.01 else 5 if first < 0.5 else 1
            seconds = self.once(call, times) if times > 1 else first
            self.last = (size, seconds) if name == "all_reduce" and size > 1 << 19 else self.last
            step.more = {"op": name, "bytes": size, "each": seconds, "right": right}

    def pair(self, a: int, b: int) -> None:
        """Two ranks alone: there and back with 8 bytes, then as much as fills the link, each way."""
        with Step(self.rank, f"pair {a} {b}") as step:
            if self.rank in {a, b}:
                small = self.torch.zeros(2, device=self.device)
                large = self.torch.full((self.task["pair_bytes"] // 4,), float(self.rank), device=self.device)
                self.echo(a, b, small, 3)
                there = self.echo(a, b, small, 20)
                self.echo(a, b, large, 1)
                full = self.echo(a, b, large, 3)
                right = bool((large == float(a)).all().item())
                step.more = {"op": "pair", "from": a, "to": b, "bytes": self.task["pair_bytes"], "latency": there / 2, "each": full / 2, "right": right}  # fmt: skip
            self.dist.barrier()

    def echo(self, a: int, b: int, data: Any, times: int) -> float:
        """Seconds for there and back."""
        self.sync()
        began = time.perf_counter()
        for _ in range(times):
            if self.rank == a:
                self.dist.send(data, b)
                self.dist.recv(data, b)
            else:
                self.dist.recv(data, a)
                self.dist.send(data, a)
        self.sync()
        return (time.perf_counter() - began) / times


def run_rank(task: dict[str, Any], local: int) -> None:
    """All steps of one rank."""
    rank, world = task["first"] + local, task["world"]
    dist, device = join(task, rank, local)
    timed = Timed(dist, device, rank, task)
    if world > 1:
        with Step(rank, "barrier"):
            dist.barrier()
        for size in task["sizes"]:
            timed.collective("all_reduce", size)
        for size in task["broadcast"]:
            timed.collective("broadcast", size)
        every = [(a, b) for a in range(world) for b in range(a + 1, world)]
        for a, b in every if world <= 8 else [(a, a + 1) for a in range(world - 1)]:
            timed.pair(a, b)
    tell({"rank": rank, "step": "end", "state": "done"})
    sys.stdout.flush()
    os._exit(0)  # tearing a group down may hang by itself, and says nothing
