"""What a look at many machines costs: seconds, processor time, memory, and what a dead one among them adds.

Machines are one sshd on loopback under many names, so that everything they do is done here as well: real machines
have processors of their own. That sshd takes eight connections that are not logged in yet, and drops the next; one
more machine listens and never answers. Run as ``python bench/machines.py [MACHINES]``; exit code 1: a bound is broken.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from loopback import Loopback, problem, sshd

MACHINES, SECONDS, MEGABYTES = 200, 60, 200
"""Bounds: so many machines on an idle processor or two, no longer than that."""
STARTS = 8
DEADLINE = 8
"""Seconds that a machine has to answer."""


@dataclass(frozen=True, slots=True)
class Took:
    """What one run of the command took."""

    seconds: float
    megabytes: float
    """Most memory of the command itself."""
    answered: int


def main() -> int:
    """Measure, print, and compare with the bounds."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    if (why := problem()) is not None:
        print(f"bench: {why}", file=sys.stderr)
        return 4
    with tempfile.TemporaryDirectory(dir="/tmp") as name, socket.socket() as dead:
        home = Path(name) / "home"  # what this user's own shell does at every login is no machine's cost
        home.mkdir()
        settings = f"MaxStartups {STARTS}:100:{STARTS}\nSetEnv HOME={home}"
        with sshd(Path(name) / "sshd", settings=settings) as box:
            dead.bind(("127.0.0.1", 0))
            dead.listen()
            box.configure(f"Host dead\n  Port {dead.getsockname()[1]}\n")
            tool = Path(name) / "ssh"
            tool.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {box.config} "$@"\n')
            tool.chmod(0o755)
            names = tuple(f"m{number}" for number in range(count))
            alone = look(Path(name), names)
            with_dead = look(Path(name), (*names, "dead"))
            dropped = drops(box)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)  # sshd has ended, and with it what it started
    each = (used.ru_utime + used.ru_stime) / (2 * count)
    busy = os.getloadavg()[0] / (os.cpu_count() or 1)
    print(
        f"processor time: {each:.2f} s a machine; connections dropped: {dropped}; load {busy:.1f} a processor"
    )
    return judged(count, alone, with_dead, dropped)


def judged(count: int, alone: Took, with_dead: Took, dropped: int) -> int:
    """1 where a bound is broken."""
    broken = []
    if alone.answered < count or with_dead.answered < count:
        broken.append("a machine did not answer")
    if count >= MACHINES and alone.seconds > SECONDS:
        broken.append(f"more than {SECONDS} s")
    if max(alone.megabytes, with_dead.megabytes) > MEGABYTES:
        broken.append(f"more than {MEGABYTES} MB")
    if with_dead.seconds > alone.seconds * 1.25 + DEADLINE + 2:
        broken.append("the dead machine cost more than its deadline")
    if dropped:
        broken.append(f"more than {STARTS} connections began at once at one sshd")
    print("\n".join(f"BROKEN: {each}" for each in broken) or "every bound holds")
    return 1 if broken else 0


def drops(box: Loopback) -> int:
    """Connections that sshd dropped, as too many began at once."""
    return len(re.findall(r"drop connection #", box.log()))


def look(folder: Path, names: tuple[str, ...]) -> Took:
    """Look at all of them in one run of the command, and print what that took."""
    file = folder / "cluster.toml"
    file.write_text("".join(f'[nodes.{name}]\naddress = "{name}"\n' for name in names))
    program = str(Path(sys.executable).with_name("canserve"))
    command = [program, "machine", str(file), "--format", "json", "--quiet"]
    # The command's own memory, not that of its children: it says it itself when it ends.
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)
    assert process.stdout is not None
    out = process.stdout.read()
    _, _, used = os.wait4(process.pid, 0)
    process.returncode = 0
    seconds = time.monotonic() - start
    machines = json.loads(out)["machines"]
    answered = sum(isinstance(machine["facts"]["kernel"], str) for machine in machines)
    took = Took(seconds, used.ru_maxrss / 1024, answered)
    print(f"{len(names)} machines, {answered} answered: {seconds:.1f} s, at most {took.megabytes:.0f} MB")
    return took


if __name__ == "__main__":
    raise SystemExit(main())
