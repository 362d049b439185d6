"""What ``verify`` shows on stderr while it asks: on a terminal, elsewhere, and not at all."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios
import time
from dataclasses import dataclass, field

import pyte
import pytest
from command import COMMAND, environment

from stub_server import Stub, serving
from terminal import pieces

COLUMNS, ROWS = 80, 24
BRIEF = ("--quick", "--patience", "20", "--format", "json")


@dataclass
class Shown:
    """One call: what stdout got, and what a terminal at stderr showed, frame by frame."""

    stdout: str = ""
    raw: str = ""
    frames: list[list[str]] = field(default_factory=list)
    last: list[str] = field(default_factory=list)
    code: int = 0

    @property
    def lines(self) -> list[str]:
        return [line for frame in self.frames for line in frame]


def on_a_terminal(stub: Stub, *words: str, **variables: str) -> Shown:
    reading, writing = pty.openpty()
    fcntl.ioctl(writing, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    variables = {"TERM": "xterm", **variables}
    process = subprocess.Popen(
        [*COMMAND, "verify", stub.url, *BRIEF, *words],
        stdin=writing, stdout=subprocess.PIPE, stderr=writing, env=environment(**variables),
    )  # fmt: skip
    os.close(writing)
    screen, found, raw = pyte.Screen(COLUMNS, ROWS), Shown(), bytearray()
    stream = pyte.ByteStream(screen)
    for piece in pieces(reading):
        raw += piece
        stream.feed(piece)
        found.frames.append([line.rstrip() for line in screen.display if line.strip()])
    assert process.stdout is not None
    found.stdout = process.stdout.read().decode()
    process.stdout.close()
    found.raw, found.last, found.code = raw.decode(), found.frames[-1] if found.frames else [], process.wait()
    return found


@pytest.mark.slow
def test_a_terminal_shows_every_part_what_it_found_and_the_pace() -> None:
    with serving("tags", tokens_per_second=60.0) as stub:
        shown = on_a_terminal(stub)
    assert json.loads(shown.stdout)["verdict"] == "no", "stdout is data alone"
    assert any(re.search(r"^  \.\.\. +[a-z ]+ +\d+ of \d+", line) for line in shown.lines)
    assert any(re.search(r"^  yes +known answers +\d+\.\d s  answer-correct", line) for line in shown.lines)
    assert any(
        re.search(r"^  no +formats +\d+\.\d s  reasoning-in-its-field: ", line) for line in shown.lines
    )
    assert any(
        re.search(r"^[-|/\\] speed, .*\d tok/s, first token .* ms \(\d+ s\)$", line) for line in shown.lines
    )
    form = re.compile(r"  (yes|no|unknown|\.\.\.|-)? +\S|[-|/\\] \S")
    odd = [line for line in shown.lines if line and not form.match(line)]
    assert not odd, "no line is so long that it goes on in the next row"
    assert shown.last == [], "nothing of it is left"
    assert "\x1b[32myes" in shown.raw and "\x1b[31mno" in shown.raw


@pytest.mark.slow
def test_no_colour_where_none_is_wanted() -> None:
    with serving(tokens_per_second=60.0) as stub:
        shown = on_a_terminal(stub, "--time", "4", NO_COLOR="1")
    assert "yes      known answers" in shown.raw and not re.search(r"\x1b\[[\d;]*m", shown.raw)


def test_quiet_is_silent() -> None:
    with serving() as stub:
        shown = on_a_terminal(stub, "--quiet")
    assert shown.raw == "" and json.loads(shown.stdout)["verdict"] == "yes"


@pytest.mark.slow
def test_elsewhere_plain_lines_say_what_ended() -> None:
    with serving("tags", tokens_per_second=60.0) as stub:
        began = time.monotonic()
        words = [*COMMAND, "verify", stub.url, *BRIEF]
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment())
        took = time.monotonic() - began
    assert json.loads(done.stdout)["verdict"] == "no"
    lines = done.stderr.splitlines()
    assert "known answers: yes (answer-correct)" in done.stderr and "\x1b" not in done.stderr
    assert 1 <= len(lines) <= took / 3 + 2, "one every few seconds at most"
    assert len(set(lines)) == len(lines)
