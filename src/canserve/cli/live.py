"""What is shown while a deployment starts: a line for each rank, drawn over on a terminal."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING

from canserve.cli.output import Progress

if TYPE_CHECKING:
    from canserve.subjects.progress import Outlook


class Live(Progress):
    """Progress that knows ranks. Where stderr is no terminal, or one that cannot be drawn over, plain lines."""

    def __init__(self, quiet: bool) -> None:
        super().__init__(quiet)
        self._outlook: Outlook | None = None
        self._drawn = 0
        if os.environ.get("TERM", "dumb") == "dumb":
            self._terminal = False

    def __call__(self, message: str) -> None:
        """Something else than ranks is being done."""
        self._outlook = None
        super().__call__(message)

    def show(self, outlook: Outlook) -> None:
        """What the last look at the ranks found."""
        from canserve.render.progress import furthest

        self._message = furthest(outlook.stages) or "waiting until it answers"
        self._outlook = outlook

    def _draw(self, message: str, turn: int) -> None:
        outlook = self._outlook
        if outlook is None:
            self._clear()
            super()._draw(message, turn)
            return
        from canserve.render.progress import live_lines

        size = shutil.get_terminal_size()
        lines = live_lines(outlook, size.columns, max(size.lines - 3, 2))
        up = f"\x1b[{self._drawn}A" if self._drawn else ""
        sys.stderr.write(f"\r{up}" + "".join(f"{line}\x1b[K\n" for line in lines) + "\x1b[J")
        self._drawn = len(lines)
        super()._draw("waiting until it answers", turn)

    def _clear(self) -> None:
        up = f"\x1b[{self._drawn}A" if self._drawn else ""
        print(f"\r{up}\x1b[J", end="", file=sys.stderr, flush=True)
        self._drawn = 0
