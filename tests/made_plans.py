"""Saved plans, and an engine that is none: a small program under the engine's name."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from canserve.facts import Cause, Evidence, Known, Missing
from canserve.plan.plan import Plan, Plans
from canserve.render.plan_structure import plans_output
from canserve.render.structure import to_json
from canserve.subjects.launch import Process, Start
from canserve.subjects.parallel import Parallel, Placement, Rank
from canserve.verdict import Finding, No

SERVER = """\
#!/bin/sh
# An engine that is none: answers on the port that it is told, and says what it was given.
echo "starting $0 $*"
echo "token ${SERVE_TOKEN:-none} variable ${SERVE_VARIABLE:-none}"
echo "looking at its words"
port=
while [ $# -gt 0 ]; do case $1 in --port) port=$2;; --fail) echo "ValueError: no such model" >&2; exit 7;; esac; shift; done
exec python3 -c '
import mmap, os, socket, subprocess, sys, time
name = f"psm_canserve_{os.getpid()}"  # as collective libraries hold it: nobody removes it with the process
handle = os.open(f"/dev/shm/{name}", os.O_CREAT | os.O_RDWR)
os.ftruncate(handle, 4096)
held = mmap.mmap(handle, 4096)
child = subprocess.Popen(["sleep", "100000"])
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", int(sys.argv[1]))); s.listen(8)
print("ready on", sys.argv[1], "memory", name, flush=True)
while True:
    c = s.accept()[0]
    try:
        c.settimeout(5); c.recv(4096); c.sendall(b"HTTP/1.0 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\n{}")
    except OSError:
        pass
    c.close()
' "$port"
"""


def environment(folder: Path, *names: str) -> str:
    """An environment with these programs; its path."""
    programs = folder / "venv" / "bin"
    programs.mkdir(parents=True, exist_ok=True)
    for name in names:
        (programs / name).write_text(SERVER)
        (programs / name).chmod(0o755)
    return str(folder / "venv")


def made(
    processes: Sequence[Process],
    *,
    build: str,
    engine: str = "vllm",
    model: str = "org/tiny",
    findings: tuple[Finding, ...] = (),
) -> Plan:
    """A plan; every process with ranks holds one accelerator for each."""
    ranks = [(number, process.host) for process in processes for number in process.ranks]
    machines: dict[str, int] = {}
    placed = []
    for number, host in sorted(ranks):
        device = machines.get(host, 0)
        machines[host] = device + 1
        placed.append(Rank(number, number, 0, 0, host, device))
    unknown = Missing(Cause.UNREACHED, "not computed")
    return Plan(
        model=model,
        build=build,
        engine=engine,
        version="",
        placement=Placement(Parallel(tp=max(len(placed), 1)), tuple(placed), (1,)),
        options={},
        serving=unknown,
        speed=unknown,
        start=Known(Start(tuple(processes))),
        findings=findings,
    )


def saved(
    path: Path, processes: Sequence[Process], *, build: str, engine: str = "vllm", model: str = "org/tiny"
) -> Path:
    """A plan in a file, as ``canserve plan --save`` writes it."""
    return written(path, [made(processes, build=build, engine=engine, model=model)])


def written(path: Path, plans: Sequence[Plan]) -> Path:
    """Plans in a file, the best first."""
    path.write_text(to_json(plans_output(Plans(plans[0].model, "latency", tuple(plans)))))
    return path


def refused(because: str) -> tuple[Finding, ...]:
    """A finding that says no."""
    look = Evidence("build", "read", "seen")
    return (Finding("architecture-registered", "build", No(because, "take another build"), (look,)),)


def server(host: str, port: int, *more: str, environment: Mapping[str, str] | None = None) -> Process:
    """One process of a single-host plan."""
    return Process(
        host, (0,), ("vllm", "serve", "/models/tiny", "--port", str(port), *more), environment or {}
    )


def told(text: str) -> Mapping[str, Any]:
    """JSON output."""
    found: Mapping[str, Any] = json.loads(text)
    return found
