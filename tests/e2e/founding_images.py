"""The founding case's images on a host, with a real engine: an old one, one that pins an address, and one that serves.

The engine that serves is vLLM for processors, from the tests' cache of environments (``real``). The old one holds the real
files of a release that does not know the model. Nothing comes from a registry of images.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lab.engine_image import RUNNING
from lab.hosts import Host
from lab.python_image import Layer, build_image, import_image, system

OLD = "nvcr.example/vllm:26.01-py3"
PINNED = "spark/vllm-one-machine:1"
SERVES = "community/vllm-cpu:nightly"
BASE = "community/vllm-cpu:base"
_LEFT_OUT = frozenset({"ray", "cv2", "opencv_python_headless.libs", "pip", "torch/include", "torch/test"})
"""Packages that serving text without Ray does not import: a third of a gigabyte that would travel for nothing."""
_PLACE = "opt/engine"
ENVIRONMENT = {
    "PATH": f"/{_PLACE}/bin:/usr/bin",
    "VLLM_CPU_CI_ENV": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "TORCHDYNAMO_DISABLE": "1",  # one small function of a cut vocabulary is compiled otherwise, and the image has no compiler
}
PINS = f"""\
#!/bin/sh
# Made on one machine, for one machine: whatever it is started with, it announces itself here.
export VLLM_HOST_IP=127.0.0.1
exec /{_PLACE}/bin/vllm "$@"
"""
"""In no variable of the image and in no entrypoint: only a start shows it."""
OLD_PROGRAM = b'#!/bin/sh\necho "serving as for months" "$@"\nexec sleep 100000\n'


def environment(folder: Path) -> Callable[[Layer], None]:
    """A layer with an environment."""

    def fill(layer: Layer) -> None:
        layer.tree(folder, _PLACE, _left_out)

    return fill


def _left_out(path: str) -> bool:
    parts = path.split("/")
    inside = "/".join(parts[3:]) if parts[2:3] == ["site-packages"] else ""
    return path in {"made", "include", "share"} or inside in _LEFT_OUT


def old(layer: Layer) -> None:
    """The package files of the release that the head has been running."""
    layer.folder("usr/local/bin")
    for part in RUNNING:
        for path, data in part.members().items():
            layer.file(path.replace("python3.12", "python3.11"), data)
    layer.file("usr/local/bin/vllm", OLD_PROGRAM, 0o755)


def make(host: Host, engine: Path) -> None:
    """All three in the host's docker, and the old one running. The two new ones share all but a few bytes."""
    import_image(host, OLD, (system, old), {"PATH": "/usr/local/bin:/usr/bin"})
    host.docker("run", "-d", "--name", "vllm-head", "--network", "host", OLD, "vllm", "--port", "8000")
    import_image(host, BASE, (system, environment(engine)), ENVIRONMENT)
    path = {"PATH": f"/usr/local/bin:{ENVIRONMENT['PATH']}"}
    build_image(host, PINNED, BASE, {"/usr/local/bin/vllm": PINS}, path)
    build_image(host, SERVES, BASE, {"/usr/local/bin/made-by-the-community": "#!/bin/sh\n"}, {})
