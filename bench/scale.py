"""What a deployment costs per host, at 10, 100 and 1,000 simulated hosts: `up`, one look, a death, `down`.

Hosts answer over a link in place of ssh (tests/simulated_hosts.py), in this process, so that what is measured is
canserve's own work: processor seconds and peak memory of one process for each size. Figures are compared within one run: the
last column says how much more a host costs than in the smallest fleet. Their own answering is counted with it.

    ./dev bench scale [SIZE ...]
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from canserve.api import Options
from canserve.api.deploying import Doing, up
from canserve.api.preparing import prepared
from canserve.api.running import Downing, Sought, down, status
from canserve.api.wished import UpWishes
from canserve.store.journal import Journal
from simulated_hosts import Fate, fleet, healthy, names, plan

SIZES = (10, 100, 1000)
PARTS = ("plan", "up", "status", "down", "death")


def measured(work: Callable[[], Any]) -> tuple[Any, float]:
    began = time.process_time()
    found = work()
    return found, time.process_time() - began


def one(count: int, folder: Path) -> dict[str, Any]:
    """Everything once, in this process."""
    hosts, kept, seconds = fleet(count), Journal(folder), dict.fromkeys(PARTS, 0.0)
    wishes = UpWishes(on=names(count), inside="/srv/venv", state="/s")
    with hosts.reached():
        it, seconds["plan"] = measured(lambda: prepared(plan(count), wishes, Options()))
        doing = Doing(kept, wait=600, first_token=False)
        report, seconds["up"] = measured(lambda: up(it, doing))
        assert report.state == "up", report.why
        sought = Sought(run=it.deployment.run)
        _, seconds["status"] = measured(lambda: status(sought, kept, Options()))
        done, seconds["down"] = measured(lambda: down(sought, kept, Downing()))
        assert not done.left and not hosts.left()
        victim = list(hosts.hosts.values())[count // 2]
        next(iter(hosts.hosts.values())).fate = healthy(0, count)
        victim.fate = Fate(
            (*healthy(count // 2, count, until="met").lines, (0.3, "ValueError: enough")), dies=0.5
        )
        again = prepared(plan(count), wishes, Options())
        died, seconds["death"] = measured(lambda: up(again, doing))
        assert died.state == "failed" and victim.name in died.why and not hosts.left(), died.why
    kept.close()
    return {
        "hosts": count,
        "seconds": seconds,
        "calls": hosts.counts.calls,
        "at_once": hosts.counts.most,
        "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def apart(count: int) -> dict[str, Any]:
    """The same in a process of its own: peak memory is a process's."""
    memory = Path("/dev/shm")
    folder = tempfile.mkdtemp(prefix="canserve-scale-", dir=memory if memory.is_dir() else None)
    try:
        done = subprocess.run(
            [sys.executable, __file__, "--one", str(count), folder],
            stdout=subprocess.PIPE, check=True, text=True, env={**os.environ, "CANSERVE_DATA": folder},
        )  # fmt: skip
    finally:
        shutil.rmtree(folder)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main(words: list[str]) -> None:
    if words[:1] == ["--one"]:
        print(json.dumps(one(int(words[1]), Path(words[2]))))
        return
    sizes = tuple(map(int, words)) or SIZES
    found = [apart(size) for size in sizes]
    print("milliseconds of processor per host; in brackets against the smallest fleet")
    print(
        "hosts".rjust(6),
        *(part.rjust(16) for part in PARTS),
        "at once".rjust(8),
        "MiB".rjust(6),
        "KiB/host".rjust(9),
    )
    first = found[0]
    for each in found:
        cells = []
        for part in PARTS:
            cost = each["seconds"][part] * 1000 / each["hosts"]
            base = first["seconds"][part] * 1000 / first["hosts"]
            cells.append(f"{cost:8.2f} ({cost / base:4.2f})".rjust(16))
        more = (each["mib"] - first["mib"]) * 1024 / max(each["hosts"] - first["hosts"], 1)
        print(
            str(each["hosts"]).rjust(6),
            *cells,
            str(each["at_once"]).rjust(8),
            f"{each['mib']:6.0f}",
            f"{more:9.0f}",
        )


if __name__ == "__main__":
    main(sys.argv[1:])
