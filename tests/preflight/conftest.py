"""A virtual environment with a real torch for processors, made once and kept between runs."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

VERSION = "torch==2.13.0+cpu"
"""Named whole: without ``+cpu`` the index gives a build for CUDA, of several gigabytes."""


@pytest.fixture(scope="session")
def torch(root: Path) -> str:
    """Its folder. 0.9 GB, a minute to make; skips where the index has no such build."""
    if given := os.environ.get("CANSERVE_TEST_TORCH"):
        return given
    folder = root / ".cache" / f"torch-{sys.version_info.major}.{sys.version_info.minor}"
    folder.parent.mkdir(exist_ok=True)
    with (folder.parent / "torch.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "made").exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
            done = subprocess.run(
                [f"{folder}/bin/python", "-m", "pip", "install", "--quiet", VERSION],
                capture_output=True,
                text=True,
                check=False,
                timeout=500,
            )
            if done.returncode != 0:
                pytest.skip(f"no {VERSION} here: {done.stderr.strip()[-200:]}")
            (folder / "made").touch()
    return str(folder)
