"""What a real podman holds, in a mount namespace of its own so that its storage is the test's."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from held_images import BASE, INSTALLED

from made_images import docker_archive, layer

CI = os.environ.get("CI", "").lower() in {"1", "true"}
CONF = """[containers]
default_ulimits=["nofile=1024:1024"]
[engine]
cgroup_manager="cgroupfs"
events_logger="file"
runtime="runc"
"""
SCRIPT = """set -e
mkdir -p /var/lib/containers
mount --bind "$1/storage" /var/lib/containers
mount -t tmpfs tmpfs /run
podman load -q -i "$1/image.tar" >&2
podman create --name idle me/eng:1 >&2
shift
exec "$@"
"""
ASK = """
import json
from canserve.facts import Missing
from canserve.probes.build import BuildOptions, read_build
from canserve.subjects.build import Want
from small_engine import ENGINES
told = {}
for target in ("container://idle", "podman:me/eng:1", "containers-storage:localhost/me/eng:1", "podman:me/ent:1", "container://idol"):
    build = read_build(target, Want(), BuildOptions(engines=ENGINES)).build
    told[target] = build.why if isinstance(build, Missing) else [sorted(build.registry.value), build.identity.origin]
import subprocess
told["left"] = subprocess.run(["podman", "ps", "-a", "--format", "{{.Names}}"], capture_output=True, text=True).stdout.split()
print(json.dumps(told))
"""


def problem() -> str | None:
    if os.getuid() != 0:
        return "a mount namespace needs root"
    missing = [name for name in ("podman", "unshare", "runc") if shutil.which(name) is None]
    return f"no {missing[0]} here" if missing else None


@pytest.mark.slow
def test_podman_is_read_like_docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if (why := problem()) is not None:
        if CI:
            pytest.fail(why)
        pytest.skip(why)
    (tmp_path / "storage").mkdir()
    (tmp_path / "conf").write_text(CONF)
    docker_archive(tmp_path / "image.tar", [layer(BASE), layer(INSTALLED)], "me/eng:1")
    paths = [str(Path(__file__).parent), str(Path(__file__).parents[2])]
    # A docker that does not answer keeps nobody from finding it in podman.
    environment = {
        **os.environ, "CONTAINERS_CONF": str(tmp_path / "conf"), "PYTHONPATH": os.pathsep.join(paths),
        "DOCKER_HOST": "unix:///nowhere", "CANSERVE_CACHE": str(tmp_path / "cache"),
    }  # fmt: skip
    words = ["unshare", "--mount", "sh", "-c", SCRIPT, "sh", str(tmp_path), sys.executable, "-c", ASK]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    for target in ("podman:me/eng:1", "containers-storage:localhost/me/eng:1", "container://idle"):
        names, origin = told[target]
        assert names == ["Alpha", "Beta"] and " in podman on local" in origin
    assert told["podman:me/ent:1"] == "no such image in podman on local: me/ent:1"
    assert told["left"] == ["idle"]
