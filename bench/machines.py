"""What a look at many machines costs: seconds, memory, and what a dead one among them adds.

Machines are one sshd on loopback under many names, so that everything they do is done here as well; one more listens
and never answers. Run as ``python bench/machines.py [MACHINES]``.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from loopback import problem, sshd


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    if (why := problem()) is not None:
        print(f"bench: {why}", file=sys.stderr)
        return 4
    with (
        tempfile.TemporaryDirectory(dir="/tmp") as name,
        sshd(Path(name) / "sshd") as box,
        socket.socket() as dead,
    ):
        dead.bind(("127.0.0.1", 0))
        dead.listen()
        box.configure(f"Host dead\n  Port {dead.getsockname()[1]}\n")
        tool = Path(name) / "ssh"
        tool.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {box.config} "$@"\n')
        tool.chmod(0o755)
        for extra in ((), ("dead",)):
            names = (*(f"m{number}" for number in range(count)), *extra)
            look(Path(name), names)
    return 0


def look(folder: Path, names: tuple[str, ...]) -> None:
    """Look at all of them in one run of the command, and print what that took."""
    file = folder / "cluster.toml"
    file.write_text("".join(f'[nodes.{name}]\naddress = "{name}"\n' for name in names))
    command = [
        str(Path(sys.executable).with_name("canserve")),
        "machine",
        str(file),
        "--format",
        "json",
        "--quiet",
    ]
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    start = time.monotonic()
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    seconds = time.monotonic() - start
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    machines = json.loads(done.stdout)["machines"]
    answered = sum(isinstance(machine["facts"]["kernel"], str) for machine in machines)
    print(
        f"{len(names)} machines, {answered} answered: {seconds:.1f} s, at most {peak:.0f} MB in one process"
    )


if __name__ == "__main__":
    raise SystemExit(main())
