"""What others wrote down of first releases, row by row against the index: every difference has its reason."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_every_disagreement_is_explained(shared: Path, root: Path) -> None:
    assert (shared / "cases" / "vllm_first_seen.json").exists()
    command = [sys.executable, str(root / "bench" / "first_seen.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "NOT EXPLAINED" not in done.stdout
    assert "vllm_first_seen.json: 653 rows" in done.stdout
    assert "min_versions_claimed.csv: 174 rows" in done.stdout
