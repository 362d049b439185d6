"""What deployments on this machine have in common."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from loopback import free_port
from operator_here import Here


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Here]:
    """Whatever a test leaves, and says that it left it."""
    it = Here(tmp_path, free_port())
    yield it
    for process in sorted(it.left()):
        if process.startswith("process "):
            os.kill(int(process.split()[1].rstrip(":")), signal.SIGKILL)
    for path in Path("/dev/shm").glob("psm_canserve_*"):  # other tests run at the same time, and hold theirs
        if not Path("/proc", path.name.rpartition("_")[2]).exists():
            path.unlink(missing_ok=True)
