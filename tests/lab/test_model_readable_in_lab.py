"""model-readable over two hosts with a dockerd each: what a container's root reads, and what is wrong on one of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from canserve.subjects.launch import Process
from lab.standin_image import TAG, load
from lab.two_hosts import Lab
from made_plans import saved, told

pytestmark = pytest.mark.slow
FOLDER = "/srv/closed/m"
MAKE = f"mkdir -p {FOLDER} && cd {FOLDER} && echo x >config.json && echo x >model.safetensors && chmod 600 *"


@pytest.fixture
def models(lab: Lab) -> Iterator[Lab]:
    """A model on both hosts that only root may read."""
    for host in lab.hosts:
        load(host)
        host.run("sh", "-c", MAKE)
    yield lab
    for host in lab.hosts:
        host.run("rm", "-rf", "/srv/closed")


def test_what_is_wrong_on_one_host_is_told_of_it(models: Lab, cluster: str, tmp_path: Path) -> None:
    words = ("vllm", "serve", FOLDER, "--nnodes", "2", "--master-addr", "10.77.1.2", "--node-rank")
    processes = [Process("head", (0,), (*words, "0")), Process("second", (1,), (*words, "1", "--headless"))]
    plan = str(saved(tmp_path / "plan.json", processes, build=f"docker-daemon:{TAG}", model=FOLDER))
    asked = ("up", plan, "--on", cluster, "--accelerators", "nvidia", "--dry-run", "--quiet")
    env = {"CANSERVE_DATA": str(tmp_path / "ana")}
    done = models.canserve(*asked, "--format", "json", env=env)
    assert done.returncode == 0, done.stderr
    found = {one["about"]: one for one in told(done.stdout)["findings"]}
    assert {name: one["verdict"] for name, one in found.items()} == {"head": "yes", "second": "yes"}
    assert found["head"]["because"] == f"root of docker reads 2 files of {FOLDER}"
    models.b.run("ln", "-s", "../../blobs/2", f"{FOLDER}/model-2.safetensors")
    done = models.canserve(*asked, "--no-distribute", env=env)
    assert done.returncode == 2 and "model-readable on second: model-2.safetensors" in done.stderr, (
        done.stderr
    )
    models.b.run("sh", "-c", f"cd {FOLDER} && rm model-2.safetensors && mv model.safetensors /srv/closed && ln -s /srv/closed/model.safetensors .")  # fmt: skip
    done = models.canserve(*asked, "--no-distribute", env=env)
    assert done.returncode == 2 and "which its container is not given" in done.stderr, done.stderr
