"""Containers and images on machines that only ssh reaches: read there, one connection each, nothing left behind."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from lab.conftest import COMMUNITY_TAG
from lab.hosts import Host
from lab.two_hosts import Lab

MODEL = str(Path(__file__).parent.parent.parent / "examples" / "founding" / "model")

pytestmark = [pytest.mark.slow, pytest.mark.network]


def check(lab: Lab, *words: str, cache: Path | None = None) -> dict[str, Any]:
    env = {} if cache is None else {"CANSERVE_CACHE": str(cache)}
    done = lab.canserve("check", MODEL, *words, "--format", "json", "--quiet", env=env)
    assert done.returncode in {0, 1, 3}, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def left(host: Host) -> list[str]:
    """Containers that were created to read an image."""
    return host.docker("ps", "-aq", "--filter", "label=canserve").split()


def test_a_container_and_an_image_on_the_head(founding: Lab, lab: Lab) -> None:
    heard = lab.a.heard()
    told = check(
        founding,
        "--build",
        "container://vllm-head@spark-a",
        "--build",
        f"docker-daemon:{COMMUNITY_TAG}@spark-a",
    )
    running, image = told["builds"]
    assert running["verdict"] == "no" and running["engine_version"].startswith("0.14.0rc2.dev262")
    assert image["engine_version"].startswith("0.17.1rc1.dev25") and image["verdict"] == "yes"
    assert lab.a.logins(heard) == 1, "one connection carries all"
    assert left(lab.a) == []
    assert lab.a.docker("inspect", "--format", "{{.State.Status}}", "vllm-head") == "running"


def test_the_second_host_is_reached_by_its_name_in_the_cluster(founding: Lab, lab: Lab, cluster: str) -> None:
    told = check(founding, "--build", "container://any@spark-b", "--on", cluster)
    (build,) = told["builds"]
    assert build["verdict"] == "unknown"
    assert "no such container in docker on spark-b: any" in json.dumps(build)


def test_a_connection_that_is_cut_leaves_nothing_for_long(founding: Lab, lab: Lab, tmp_path: Path) -> None:
    lab.wires.rate("mgmt", "3mbit")  # the cut comes while files travel
    told: list[dict[str, Any]] = []
    target = f"docker-daemon:{COMMUNITY_TAG}@spark-a"
    looking = threading.Thread(target=lambda: told.append(check(founding, "--build", target, cache=tmp_path)))
    looking.start()
    end = time.monotonic() + 60
    while not left(lab.a) and time.monotonic() < end:
        time.sleep(0.2)
    assert len(left(lab.a)) == 1
    lab.wires.drop("mgmt")
    looking.join(110)
    (build,) = told[0]["builds"]
    assert build["verdict"] == "unknown" and "connection" in json.dumps(build)
    lab.heal()
    end = time.monotonic() + 150
    while left(lab.a) and time.monotonic() < end:
        time.sleep(1)
    assert left(lab.a) == []
