"""The program that a preflight starts in an environment or image: sent as text, run by its Python, kept nowhere.

With ``kernels.py`` and ``ranks.py`` before it, it is one text that needs nothing but torch. Started with ``-c`` it
is a supervisor: it starts the ranks of its machine, each as a process group of its own with a deadline for every
step, and prints one JSON record a line. It ends when its input ends, when its time is up, or when all is done.
"""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # all are sent as one text
    from canserve.probes.preflight.kernels import run_kernels
    from canserve.probes.preflight.ranks import MARK, Step, follow_parent, run_rank, tell

SAID = re.compile(
    r"NCCL (INFO|WARN) .*(Bootstrap|Using network|Init (START|COMPLETE)|Connected all| via |NET/|error|fail|WARN)"
)
RAISED = re.compile(r"[\w.]*(Error|Exception|Interrupt)(:|$)")
MOST_RECORDS, MOST_LINES, SILENCE = 3000, 250, 15.0


class Rank:
    """One process of the group, where it stands, and until when it may stand there."""

    def __init__(self, task: dict[str, Any], number: int, words: list[str], home: str) -> None:
        self.number, self.step, self.lines = number, "start", 0
        self.tail: deque[str] = deque(maxlen=300)
        self.limits: dict[str, float] = task["limits"]
        self.until = time.monotonic() + self.limits["start"]
        self.over = self.done = False
        self.process = subprocess.Popen(  # noqa: S603 - this very file
            [sys.executable, "-u", str(Path(home, "canserve_preflight.py")), *words],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True, text=True, errors="replace",
            env={**os.environ, "TMPDIR": home, "TRITON_CACHE_DIR": home, "NCCL_DEBUG": "INFO", **task["env"]},
        )  # fmt: skip
        self.reader = threading.Thread(target=self.listen, daemon=True)
        self.reader.start()

    def listen(self) -> None:
        """Passes on its records and the lines of the collective library that say what it chose."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(MARK):
                with suppress(ValueError):
                    record = json.loads(line[len(MARK) :])
                    if record.get("state") == "begin":
                        self.step = record["step"]
                        self.until = time.monotonic() + self.limits.get(
                            self.step.split(" ")[0], self.limits["other"]
                        )
                    self.done = self.done or record.get("step") == "end"
                    say(record)
            elif SAID.search(line):
                self.lines += 1
                if self.lines <= MOST_LINES:
                    say({"rank": self.number, "note": line.strip()[-300:]})
            self.tail.append(line.rstrip()[:300])

    def watch(self) -> bool:
        """Whether it is still under way; says how it ended."""
        if self.over:
            return False
        status = self.process.poll()
        if status is not None:
            self.reader.join(2.0)
            self.over = True
            if status != 0 or not self.done:
                why = f"signal {-status}" if status < 0 else f"exit status {status}"
                self.tell("failed", why)
        elif time.monotonic() > self.until:
            self.tail.clear()
            how = self.kernel_state()
            with suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGUSR1)
            time.sleep(0.7)
            self.over = True
            self.tell("stalled", how)
            self.end()
        return not self.over

    def kernel_state(self) -> str:
        """What the kernel says of a process that does not come on, where that is a reason by itself."""
        try:
            state = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (OSError, IndexError):
            return ""
        return {"T": "its process is stopped (SIGSTOP)", "D": "its process waits in the kernel"}.get(
            state, ""
        )

    def tell(self, state: str, why: str) -> None:
        """How the step ended that it stands in, with its last words."""
        lines = [line for line in self.tail if line and not line.startswith(MARK) and "NCCL INFO" not in line]
        raised = [line for line in lines if RAISED.match(line) or "NCCL WARN" in line]
        say(
            {
                "rank": self.number,
                "step": self.step,
                "state": state,
                "said": why,
                "raised": raised[:4],
                "last": lines[:12] if state == "stalled" else lines[-12:],
            }
        )

    def end(self) -> None:
        """Takes the process and all its children away."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(5)


printing, printed = threading.Lock(), [0]


def say(record: dict[str, Any]) -> None:
    """One record a line, on stdout; who listens no more ends everything."""
    with printing:
        printed[0] += 1
        if printed[0] <= MOST_RECORDS:
            try:
                os.write(1, (json.dumps({"t": round(time.time(), 3), **record})[:6000] + "\n").encode())
            except OSError:
                os.kill(os.getpid(), signal.SIGTERM)


def stop(*_: object) -> None:
    """A signal or the alarm: everything ends by ``finally``."""
    raise SystemExit(3)


def supervise(task: dict[str, Any], source: str) -> None:
    """Start the ranks of this machine and watch them until they end, or are ended."""
    for each in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGALRM):
        signal.signal(each, stop)
    signal.alarm(int(task["limits"]["whole"]))
    home = tempfile.mkdtemp(prefix="canserve-preflight-")
    ranks: list[Rank] = []
    try:
        Path(home, "canserve_preflight.py").write_text(source, encoding="utf-8")
        text = json.dumps(task)
        ranks += [
            Rank(task, task["first"] + at, ["rank", text, str(at)], home) for at in range(task["count"])
        ]
        attend(ranks)
        left = list(task["kernels"])
        while left:
            one = Rank(task, task["first"], ["kernels", json.dumps({**task, "kernels": left}), "0"], home)
            ranks.append(one)
            attend([one])
            left = left[left.index(one.step[7:]) + 1 :] if not one.done and one.step[7:] in left else []
        say({"rank": task["first"], "step": "machine", "state": "done"})
    finally:
        signal.alarm(0)
        for rank in ranks:
            rank.end()
        shutil.rmtree(home, ignore_errors=True)


def attend(ranks: list[Rank]) -> None:
    """Until all have ended, as long as somebody sends signs of life."""
    heard = time.monotonic()
    while any([rank.watch() for rank in ranks]):  # noqa: C419 - every one is looked at, each time
        if select.select([0], [], [], 0.2)[0]:
            if not os.read(0, 4096):
                stop()
            heard = time.monotonic()
        if time.monotonic() - heard > SILENCE:
            stop()


def main(words: list[str]) -> None:
    """``TASK``, as a supervisor; ``rank TASK LOCAL`` or ``kernels TASK 0``, as one of its processes."""
    if words[0] == "rank":
        follow_parent()
        run_rank(json.loads(words[1]), int(words[2]))
    elif words[0] == "kernels":
        follow_parent()
        task = json.loads(words[1])
        run_kernels(task["kernels"], task["device"], lambda name: Step(task["first"], f"kernel {name}"))
        tell({"rank": task["first"], "step": "end", "state": "done"})
        sys.stdout.flush()
        os._exit(0)
    else:
        parts = Path("/proc/self/cmdline").read_bytes().split(b"\0")
        supervise(json.loads(words[0]), parts[parts.index(b"-c") + 1].decode())


if __name__ == "__main__":
    main(sys.argv[1:])
