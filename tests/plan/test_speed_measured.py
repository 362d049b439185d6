"""Speed against measurements: the figures that are promised, as the bench prints them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

LINE = re.compile(r"(.+): decode x 1: (\d+) rows, median error (\d+)%, inside (\d+)%")


@pytest.mark.slow
def test_decode_of_one_sequence_is_as_near_as_promised(root: Path, shared: Path) -> None:
    assert (shared / "cases" / "h200_measured.jsonl").is_file()
    done = subprocess.run(
        [sys.executable, str(root / "bench" / "speed.py")],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    found = {match[1]: match for match in LINE.finditer(done.stdout)}
    assert set(found) == {"public", "ours, held out", "published"}
    for source, match in found.items():
        rows, error, inside = (int(match[number]) for number in (2, 3, 4))
        assert rows >= 3, source
        assert error <= 20, source
        assert inside >= 80, source
