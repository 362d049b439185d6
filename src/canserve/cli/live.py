"""What is shown while a deployment starts or is asked: a line for each rank or part, drawn over on a terminal."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from canserve.cli.output import Progress

if TYPE_CHECKING:
    from canserve.subjects.inquiry import Inquiry
    from canserve.subjects.progress import Outlook

Block = Callable[[int, int], list[str]]
"""From columns and rows to the lines that are drawn."""
BETWEEN = 3.0
"""Seconds between two plain lines about what was found, at least."""


class Live(Progress):
    """Progress that knows ranks and parts. Where stderr is no terminal, or one that cannot be drawn over, plain lines."""

    def __init__(self, quiet: bool) -> None:
        super().__init__(quiet)
        self._block: Block | None = None
        self._drawn = 0
        self._below = ""
        self._source: Callable[[], Inquiry] | None = None
        self._news = _News()
        if os.environ.get("TERM", "dumb") == "dumb":
            self._terminal = False

    def __call__(self, message: str) -> None:
        """Something else than ranks is being done."""
        if self._source is None:
            self._block = None
        super().__call__(message)

    def show(self, outlook: Outlook) -> None:
        """What the last look at the ranks found."""
        from canserve.render.progress import furthest, live_lines

        self._message = furthest(outlook.stages) or "waiting until it answers"
        self._below = "waiting until it answers"
        self._block = lambda columns, rows: live_lines(outlook, columns, rows)

    def follow(self, source: Callable[[], Inquiry]) -> None:
        """Show from now on how far a verification has come, as ``source`` says whenever it is asked."""
        self._source = source

    def _line(self) -> str:
        if self._source is None:
            return self._message
        it = self._source()
        if it.current is None and not it.ended:  # looking for it still
            return self._message
        if not self._terminal:
            return self._news.line(it)
        from canserve.render.inquiry import doing, inquiry_lines

        colour = not os.environ.get("NO_COLOR")
        self._below = doing(it)
        self._block = lambda columns, rows: inquiry_lines(it, columns, rows, colour)
        return self._below

    def _draw(self, message: str, turn: int) -> None:
        block = self._block
        if block is None:
            self._clear()
            super()._draw(message, turn)
            return
        size = shutil.get_terminal_size()
        lines = block(size.columns, max(size.lines - 3, 2))
        up = f"\x1b[{self._drawn}A" if self._drawn else ""
        sys.stderr.write(f"\r{up}" + "".join(f"{line}\x1b[K\n" for line in lines) + "\x1b[J")
        self._drawn = len(lines)
        super()._draw(self._below, turn)

    def _clear(self) -> None:
        up = f"\x1b[{self._drawn}A" if self._drawn else ""
        print(f"\r{up}\x1b[J", end="", file=sys.stderr, flush=True)
        self._drawn = 0


class _News:
    """What a verification found, in plain lines: one for what has ended since the last, not too often."""

    def __init__(self) -> None:
        self._last = ""
        self._at = 0.0
        self._told: set[str] = set()

    def line(self, it: Inquiry) -> str:
        """The last line, or the next one."""
        from canserve.render.inquiry import doing, rank_told, told

        now = time.monotonic()
        if now - self._at < BETWEEN:
            return self._last
        news = [told(part) for part in it.ended] + [rank_told(one) for one in it.ranks if one.alive is False]
        fresh = [each for each in news if each not in self._told]
        if fresh or not self._last:
            self._told.update(fresh)
            self._at, self._last = now, "; ".join(fresh) or doing(it)
        return self._last
