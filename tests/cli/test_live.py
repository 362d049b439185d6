"""What ``up`` draws on stderr while a deployment starts: on a terminal, on one that cannot be drawn over, in a file."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

PROGRAM = """
import time
from canserve.cli.live import Live
from canserve.subjects.progress import Count, Outlook, Stage
def outlook(at, phase, done=0):
    count = Count(phase, done, 4) if done else None
    return Outlook(at, tuple(Stage(r, f"spark-{r}", r, phase, 0.0, at, count=count, last="\\x1b[2Jhostile") for r in (0, 1)))
with Live(False) as live:
    live("starting it")
    time.sleep(1.4)
    live.show(outlook(1.0, "connecting"))
    time.sleep(0.4)
    live.show(outlook(2.0, "loading", 3))
    time.sleep(0.4)
    live("taking away")
    time.sleep(0.4)
"""


def shown(terminal: bool, **variables: str) -> str:
    """All that is written to stderr."""
    reading, writing = pty.openpty() if terminal else os.pipe()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", **variables}
    process = subprocess.Popen([sys.executable, "-c", PROGRAM], stderr=writing, env=environment)
    os.close(writing)
    found = bytearray()
    while True:
        try:
            piece = os.read(reading, 1 << 16)
        except OSError:  # Linux: the last writer of a terminal has closed its end
            break
        if not piece:
            break
        found += piece
    os.close(reading)
    assert process.wait(60) == 0
    return found.decode()


@pytest.mark.slow
def test_a_terminal_has_a_line_for_each_rank_drawn_over_and_taken_away() -> None:
    text = shown(terminal=True, NO_COLOR="1")
    assert "rank 0   spark-0" in text and "rank 1   spark-1" in text and "weights 3 of 4" in text
    assert "\x1b[2A" in text and "\x1b[2J" not in text, "drawn over; what an engine says moves no cursor"
    assert "\x1b[3" not in text and "\x1b[1m" not in text, "no colours"
    assert text.rstrip().endswith("\x1b[J"), "nothing of it is left"


@pytest.mark.slow
@pytest.mark.parametrize("terminal", [False, True])
def test_elsewhere_every_change_is_a_plain_line(terminal: bool) -> None:
    lines = shown(terminal, TERM="dumb").replace("\r", "").splitlines()
    assert lines == ["starting it", "rank 0,1: ranks joining", "rank 0,1: weights 3 of 4", "taking away"]
