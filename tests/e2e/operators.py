"""Operators of the lab: people who run canserve, each with a journal of their own, and who may be interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from canserve.subjects.launch import Process
from lab.hosts import Host
from lab.standin_engine import TAG
from lab.two_hosts import RUNTIME, Lab
from made_plans import saved, told

HEAD, SECOND = "10.77.1.2", "10.77.1.3"
PORT = 8123
PATIENCE = 240.0
"""Seconds that anything may take on a machine that is busy; no test is about how long it takes."""
CLUSTER = """\
[nodes.head]
address = "spark-a"
ip = "10.77.1.2"
interface = "enp1s0f0np0"
source = "the lab"

[nodes.second]
address = "spark-b"
ip = "10.77.1.3"
interface = "enp1s0f0np0"
internet = false
source = "the lab"
"""
"""Both hosts as what they are: machines without accelerators."""


def two_ranks(model: str = "/lab", head_announces: str = HEAD) -> tuple[Process, ...]:
    """A server over both hosts by the engine's own launcher."""
    words: tuple[str, ...] = ("vllm", "serve", model, "--tensor-parallel-size", "2", "--nnodes", "2")
    words = (*words, "--master-addr", HEAD, "--master-port", "29501")
    return (
        Process(
            "head", (0,), (*words, "--node-rank", "0", "--port", str(PORT)), {"VLLM_HOST_IP": head_announces}
        ),
        Process("second", (1,), (*words, "--node-rank", "1", "--headless"), {"VLLM_HOST_IP": SECOND}),
    )


def until(what: str, holds: Callable[[], bool], patience: float = PATIENCE) -> None:
    """Wait for something that must come."""
    end = time.monotonic() + patience
    while not holds():
        if time.monotonic() > end:
            raise AssertionError(f"not within {patience:.0f} s: {what}")
        time.sleep(0.1)


@dataclass
class Going:
    """A command of an operator that goes on by itself."""

    process: subprocess.Popen[bytes]
    out: Path

    def _pids(self) -> list[int]:
        """The command itself: what was started is its way into the operator's machine."""
        here = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(child) for child in here.read_text().split()] or [self.process.pid]

    def until(self, what: str, holds: Callable[[], bool]) -> None:
        """Wait for something that must come while it goes on."""
        until(what, lambda: holds() or self.process.poll() is not None)
        talk = self.out.with_suffix(".err").read_text()
        assert self.process.poll() is None, f"it ended before this: {what}\n{self.out.read_text()}{talk}"

    def send(self, word: signal.Signals) -> None:
        """A signal to the command itself."""
        for pid in self._pids():
            os.kill(pid, word)

    def said(self) -> tuple[dict[str, Any], int]:
        """What it says and its exit code, once it has ended."""
        code = self.process.wait(PATIENCE)
        text = self.out.read_text()
        return (dict(told(text)) if text.startswith("{") else {"text": text}), code

    def kill(self) -> None:
        """With SIGKILL."""
        self.send(signal.SIGKILL)
        self.process.kill()
        self.process.wait()


@dataclass
class Operator:
    """Somebody who deploys."""

    lab: Lab
    folder: Path
    name: str = "ana"

    @property
    def cluster(self) -> str:
        """A cluster file of both hosts."""
        path = self.folder / "cluster.toml"
        path.write_text(CLUSTER)
        return str(path)

    @property
    def env(self) -> dict[str, str]:
        """A journal of their own."""
        return {"CANSERVE_DATA": str(self.folder / self.name), "LOGNAME": self.name}

    def plan(self, processes: Sequence[Process], build: str = f"docker-daemon:{TAG}") -> str:
        """A saved plan of these processes."""
        return str(saved(self.folder / f"{self.name}.json", processes, build=build, model="/lab"))

    def ask(self, *words: str, on: bool = False, patience: float = PATIENCE) -> tuple[dict[str, Any], int]:
        """A command and its exit code."""
        where = ("--on", self.cluster) if on else ()
        words = (*words, *where, "--quiet", "--format", "json")
        done = self.lab.canserve(*words, env=self.env, timeout=patience)
        assert done.stdout, done.stderr
        return dict(told(done.stdout)), done.returncode

    def up_words(
        self, processes: Sequence[Process], *more: str, build: str = f"docker-daemon:{TAG}"
    ) -> tuple[str, ...]:
        """Arguments that put a saved plan into service."""
        return (
            "up", self.plan(processes, build), "--on", self.cluster, "--accelerators", "none", "--quiet", "--format", "json",
            *more,
        )  # fmt: skip

    def begin(self, *words: str) -> Going:
        """A command that goes on by itself."""
        program = str(Path(sys.executable).with_name("canserve"))
        env = [f"{name}={value}" for name, value in {**self.env, "XDG_RUNTIME_DIR": RUNTIME}.items()]
        out = self.folder / f"{self.name}.out"
        argv = self.lab.operator.entering(("env", *env, program, *words))
        with out.open("wb") as file, out.with_suffix(".err").open("wb") as talk:
            process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=file, stderr=talk)
        return Going(process, out)

    def runs(self) -> list[dict[str, Any]]:
        """What runs on both hosts, whoever started it."""
        found: list[dict[str, Any]] = self.ask("status", on=True)[0]["runs"]
        return found


def containers(host: Host) -> list[str]:
    """Of deployments."""
    return host.docker("ps", "-a", "--filter", "label=canserve.run", "--format", "{{.Names}}").split()


def log(host: Host) -> str:
    """Everything that processes of deployments said on a host."""
    done = [host.run("docker", "logs", name, check=False) for name in containers(host)]
    return "".join(each.stdout + each.stderr for each in done)
