"""Run the real command in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

COMMAND = [str(Path(sys.executable).with_name("canserve"))]


def environment(**changes: str) -> dict[str, str]:
    """This process's own, without what would change the look of the output."""
    unwanted = {"COLUMNS", "FORCE_COLOR", "NO_COLOR", "CANSERVE_TRACE"}
    return {**{key: value for key, value in os.environ.items() if key not in unwanted}, **changes}


def run(*arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
    """The command with these arguments, piped."""
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment(**changes),
        stdin=subprocess.DEVNULL,
        check=False,
    )
