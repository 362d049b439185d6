"""The founding case's discovery, measured: seconds and logins from the operator's machine, over two real sshds.

    python bench/discovery.py [TIMES]

Each command within 10 s of the wall clock and with one login on each machine; exits with 1 where one is not. Beside it
stands what it took of processors, here and on the hosts: all of them are this machine, and what else runs on it is in
the wall clock. Needs root and what tests/lab needs; the package index once, for the Python files of the images.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from lab.conftest import CLUSTER, COMMUNITY_TAG, discoverable, sparks_up  # noqa: E402
from lab.hosts import Host  # noqa: E402
from lab.two_hosts import Lab, problem  # noqa: E402

MODEL = str(ROOT / "examples/founding/model")
RUNNING = "container://vllm-head@spark-a"
COMMUNITY = f"docker-daemon:{COMMUNITY_TAG}@spark-a"


BOUND = 10.0
"""Seconds of the wall clock."""
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Run:
    """One command."""

    seconds: float
    here: float
    """Seconds of a processor, of canserve and its ssh."""
    there: float
    """Of both hosts."""
    status: int
    logins: tuple[int, int]

    @property
    def passed(self) -> bool:
        """Within the bounds."""
        return self.seconds < BOUND and self.logins == (1, 1)

    def __str__(self) -> str:
        logins = " + ".join(map(str, self.logins))
        return (
            f"{'PASS' if self.passed else 'FAIL'} {self.seconds:6.1f} s (processor: {self.here:.1f} s here, "
            f"{self.there:.1f} s there), exit {self.status}, logins {logins}"
        )


def measure(lab: Lab, *words: str) -> Run:
    """One command, nothing cached and no connection open."""
    lab.disconnect()
    heard = [host.heard() for host in lab.hosts]
    there = sum(map(worked, lab.hosts))
    begun, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = lab.canserve(*words, "--quiet", env={"CANSERVE_CACHE": tempfile.mkdtemp(dir=lab.folder)})
    took, after = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    here = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    logins = lab.a.logins(heard[0]), lab.b.logins(heard[1])
    return Run(took, here, sum(map(worked, lab.hosts)) - there, done.returncode, logins)


def worked(host: Host) -> float:
    """Seconds of a processor of all its processes, those that have ended included: whoever waited for them has theirs."""
    total = 0
    for stat in (host.root / "proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has just ended
            total += sum(map(int, stat.read_text().rpartition(")")[2].split()[11:15]))
    return total / TICKS


def main() -> None:
    if (why := problem()) is not None:
        sys.exit(f"no lab: {why}")
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    begun = time.monotonic()
    with sparks_up() as lab:
        print(f"two hosts up in {time.monotonic() - begun:.1f} s")
        cluster = lab.folder / "cluster.toml"
        cluster.write_text(CLUSTER)
        discoverable(lab)
        on = ("--on", str(cluster))
        commands = {
            "machine": ("machine", str(cluster)),
            "check of the running build": ("check", MODEL, "--build", RUNNING, *on),
            "check of it and of the image": ("check", MODEL, "--build", RUNNING, "--build", COMMUNITY, *on),
            "candidates": ("candidates", MODEL, *on),
        }
        passed = True
        for _ in range(times):
            print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors, nothing cached:")
            for name, words in commands.items():
                run = measure(lab, *words)
                passed &= run.passed
                print(f"  {name:28} {run}", flush=True)
        begun = time.monotonic()
    print(f"down in {time.monotonic() - begun:.1f} s")
    verdict = "PASS" if passed else "FAIL"
    print(f"{verdict}: each under {BOUND:g} s, one login on each machine")
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()
