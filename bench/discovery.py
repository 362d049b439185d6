"""The founding case's discovery, measured: seconds and logins from the operator's machine, over two real sshds.

    python bench/discovery.py [TIMES]

Needs root and what tests/lab needs; the package index once, for the Python files of the images.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from lab.conftest import CLUSTER, COMMUNITY_TAG, discoverable, sparks_up  # noqa: E402
from lab.two_hosts import Lab, problem  # noqa: E402

MODEL = str(ROOT / "examples/founding/model")
RUNNING = "container://vllm-head@spark-a"
COMMUNITY = f"docker-daemon:{COMMUNITY_TAG}@spark-a"


def measure(lab: Lab, *words: str) -> str:
    lab.disconnect()
    heard = [host.heard() for host in lab.hosts]
    begun, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = lab.canserve(*words, "--quiet", env={"CANSERVE_CACHE": tempfile.mkdtemp(dir=lab.folder)})
    took, after = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    work = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    logins = [host.logins(since) for host, since in zip(lab.hosts, heard, strict=True)]
    return f"{took:6.1f} s ({work:.1f} s of a processor here), exit {done.returncode}, logins {logins[0]} + {logins[1]}"


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
        for _ in range(times):
            on = ("--on", str(cluster))
            print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors, nothing cached:")
            print("  machine                     ", measure(lab, "machine", str(cluster)))
            print("  check of the running build  ", measure(lab, "check", MODEL, "--build", RUNNING, *on))
            print(
                "  check of it and of the image",
                measure(lab, "check", MODEL, "--build", RUNNING, "--build", COMMUNITY, *on),
            )
            print("  candidates                  ", measure(lab, "candidates", MODEL, *on))
        begun = time.monotonic()
    print(f"down in {time.monotonic() - begun:.1f} s")


if __name__ == "__main__":
    main()
