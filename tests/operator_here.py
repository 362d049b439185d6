"""Operators who deploy on this machine, each with a journal of his own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from made_plans import environment, saved, server, told

COMMAND = str(Path(sys.executable).with_name("canserve"))


@dataclass(frozen=True)
class Here:
    """One operator, with a journal of his own, and a folder of claims."""

    folder: Path
    port: int

    @property
    def state(self) -> Path:
        return self.folder / "state"

    def environment(self, who: str = "ana") -> dict[str, str]:
        return {**os.environ, "CANSERVE_DATA": str(self.folder / who), "LOGNAME": who}

    def run(self, *words: str, who: str = "ana", **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [COMMAND, *words, "--state", str(self.state), "--quiet"],
            capture_output=True, text=True, check=False, timeout=120, env=self.environment(who) | variables,
        )  # fmt: skip

    def run_alone(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command that looks at no machine."""
        return subprocess.run(
            [COMMAND, *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            env=self.environment(),
        )

    def asked(self, *words: str, who: str = "ana") -> tuple[dict[str, Any], int]:
        done = self.run(*words, "--format", "json", who=who)
        assert done.stdout, done.stderr
        return dict(told(done.stdout)), done.returncode

    def plan(self, *more: str, programs: str = "vllm", **variables: str) -> str:
        process = server("local", self.port, *more, environment=variables)
        return str(saved(self.folder / "plan.json", [process], build=environment(self.folder, programs)))

    def begin(self, *words: str) -> subprocess.Popen[str]:
        """``up``, still running."""
        return subprocess.Popen(
            [COMMAND, "up", *words, "--state", str(self.state)], env=self.environment(), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip

    def takes_away(self, who: str, adopting: bool) -> None:
        """Whoever comes takes away all that is there, until nothing is and nothing comes any more: what the machine had
        begun when its operator died comes to its end by itself, on a busy machine late."""
        quiet = 0
        for _ in range(30):
            time.sleep(1)
            found = self.asked("status", "--on", "local", who=who)[0]["runs"]
            for one in found:
                if adopting:
                    assert self.asked("adopt", one["run"], "--on", "local", who=who)[1] == 0
                where = () if adopting else ("--on", "local")
                assert self.asked("down", one["run"], *where, who=who)[1] == 0
            quiet = 0 if found or self.left() else quiet + 1
            if quiet == 2:
                return
        raise AssertionError(f"left: {self.left()}")

    def left(self) -> set[str]:
        """Processes of any run of this folder, claims, run folders, and shared memory of the engine."""
        found = set()
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                variables = (entry / "environ").read_bytes()
            except OSError:
                continue
            if b"CANSERVE_RUN=" in variables and str(self.folder).encode() in variables + words.encode():
                found.add(f"process {entry.name}: {words}")
        if self.state.exists():
            found |= {str(path) for path in self.state.iterdir() if not path.name.startswith("audit-")}
        return found


def within(seconds: float, true: Any) -> bool:
    """Whether it becomes so in time."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True
