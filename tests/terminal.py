"""Run a command the way a person does: on a terminal of 80 columns."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent


def pieces(handle: int) -> Iterator[bytes]:
    """What writers put on a terminal, as it comes, until the last of them has closed its end; then it is closed."""
    try:
        while piece := os.read(handle, 1 << 16):
            yield piece
    except OSError:  # Linux: the last writer has closed its end
        pass
    finally:
        os.close(handle)


def on_terminal(
    command: Sequence[str], columns: int = 80, environment: Mapping[str, str] | None = None
) -> tuple[int, str, str]:
    """Exit code, what stdout showed (a terminal of that many columns), and stderr (not a terminal)."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    inherited = {key: value for key, value in os.environ.items() if key not in {"COLUMNS", "LINES"}}
    process = subprocess.Popen(
        list(command),
        stdin=subprocess.DEVNULL,
        stdout=slave,
        stderr=subprocess.PIPE,
        env={**inherited, "TERM": "xterm", **(environment or {})},
        cwd=ROOT,
    )
    os.close(slave)
    shown = b"".join(pieces(master))
    assert process.stderr is not None
    said = process.stderr.read().decode()
    return process.wait(), shown.decode().replace("\r\n", "\n"), said
