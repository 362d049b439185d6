"""One dockerd for all tests of a worker, with images that hold the small engine in different ways."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from held_images import BASE, INSTALLED

from docker_engine import Docker, dockerd, problem

CI = os.environ.get("CI", "").lower() in {"1", "true"}


@pytest.fixture(scope="session")
def engine() -> Iterator[Docker]:
    if (why := problem()) is not None:
        if CI:
            pytest.fail(why)
        pytest.skip(why)
    folder = Path(tempfile.mkdtemp(prefix="csd-"))
    with dockerd(folder) as docker:
        docker.load("me/eng:1", [BASE, INSTALLED])
        docker.load("me/bare:1", [BASE])
        yield docker
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def docker(engine: Docker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Docker]:
    """The engine, as the one that this user's ``docker`` talks to; what earlier tests read of it is forgotten."""
    monkeypatch.setenv("CANSERVE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("DOCKER_HOST", engine.host)
    yield engine
    for name in engine.left():
        engine("rm", "-f", name, check=False)
