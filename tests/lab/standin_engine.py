"""An image whose engine is none but speaks as one, over two hosts; a test holds it in any phase, or makes it fail there."""

from __future__ import annotations

from pathlib import Path

from lab.hosts import Host
from lab.python_image import Layer, import_image, system

TAG = "standin/vllm:1"
BEFORE = {
    "joining": "Launching vLLM",
    "communicator": "distributed_init_method",
    "weights": "is assigned as",
    "memory": "Loading weights took",
    "ready": "Loading weights took",
}
"""Phase -> the last that the second rank says before it."""
_HERE = Path(__file__).parent
_PLACE = "usr/lib/standin"


def program(layer: Layer) -> None:
    """The engine's command, and what answers requests."""
    source = (_HERE / "standin_vllm.py").read_bytes()
    found = f"import sys\nsys.path.append('/{_PLACE}')\nimport standin_vllm\nstandin_vllm.main()\n"
    layer.file(f"{_PLACE}/standin_vllm.py", source)
    layer.file(f"{_PLACE}/stub_server.py", (_HERE.parent / "stub_server.py").read_bytes())
    layer.file("usr/bin/vllm", f"#!/usr/bin/python3\n{found}".encode(), 0o755)


def load(host: Host) -> None:
    """Give it to a host's docker."""
    import_image(host, TAG, (system, program), {"PATH": "/usr/bin"})


def hold(host: Host, phase: str) -> None:
    """Every rank there stays where it is before this phase, until ``let_go``."""
    (host.share / f"hold-{phase}").touch()


def let_go(host: Host) -> None:
    """Nothing is held or made to fail any more."""
    for mark in (*host.share.glob("hold-*"), *host.share.glob("fail-*")):
        mark.unlink()
