"""Fixtures that every test may use: shared data, the package index, a cache that the tests share."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

from web_server import Site, running

ROOT = Path(__file__).parent.parent
CI = os.environ.get("CI", "").lower() in {"1", "true"}

# A machine that is busy is slow: no test is about how long an example takes.
settings.register_profile("canserve", deadline=None)
settings.load_profile("canserve")


def pytest_configure(config: pytest.Config) -> None:
    """One cache and one seed for the whole run, set before the workers start so that they inherit them."""
    os.environ.setdefault("CANSERVE_SEED", str(random.SystemRandom().randrange(1 << 31)))
    if "CANSERVE_CACHE" not in os.environ:
        folder = tempfile.mkdtemp(prefix="canserve-tests-")
        os.environ["CANSERVE_CACHE"] = folder
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


def pytest_report_header() -> str:
    """What repeats the random samples of this run."""
    return f"samples: CANSERVE_SEED={os.environ['CANSERVE_SEED']}"


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return ROOT


@pytest.fixture(scope="session")
def shared() -> Path:
    """Recorded cases and model configs that lie beside the repository, not in it."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        if CI:
            pytest.fail(f"{folder} is missing: it must be there in continuous integration")
        pytest.skip(f"{folder} is not here: recorded cases lie beside the repository")
    return folder


@pytest.fixture
def site() -> Iterator[Site]:
    """A real HTTP server, which answers as a test says."""
    with running() as server:
        yield server


@cache
def index_problem() -> str | None:
    """Why pip, as configured on this machine, cannot reach its package index; None when it can."""
    command = [sys.executable, "-m", "pip", "index", "versions", "packaging"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        return "no answer within 60 s"
    return None if done.returncode == 0 else (done.stderr.strip().splitlines() or ["no reason given"])[-1]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests of real releases need the index; in continuous integration they fail without it."""
    if item.get_closest_marker("network") and (problem := index_problem()):
        reason = f"the package index cannot be reached: {problem}"
        if CI:
            pytest.fail(reason)
        pytest.skip(reason)
