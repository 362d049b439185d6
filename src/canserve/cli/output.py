"""What every command does with its result: data to stdout, talk to stderr."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import click

if TYPE_CHECKING:
    from canserve.render.page import Look
    from canserve.verdict import Word

F = TypeVar("F", bound=Callable[..., Any])

UNKNOWN = 3
"""Exit code where nothing is a no, but something could not be read."""
EXIT: dict[Word, int] = {"yes": 0, "no": 1, "unknown": UNKNOWN}
PATIENCE = 1.0
"""Seconds of silence that need no explanation."""
_TICK = 0.1
_SPINNER = "|/-\\"


def format_option(*formats: str) -> Callable[[F], F]:
    """``--format``, the first one being the default."""
    return click.option(
        "--format",
        "form",
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help="Output format.",
    )


def quiet_option(function: F) -> F:
    """``--quiet``."""
    return click.option("-q", "--quiet", is_flag=True, help="No progress and no remarks on stderr.")(function)


def offline_option(function: F) -> F:
    """``--offline``."""
    return click.option(
        "--offline", is_flag=True, help="No network at all: what is neither here nor cached is unknown."
    )(function)


def deep_option(function: F) -> F:
    """``--deep``."""
    return click.option(
        "--deep", is_flag=True, help="Read the GPU code of remote builds too; downloads most of each."
    )(function)


def whole_option(function: F) -> F:
    """``--all``."""
    return click.option("-a", "--all", "whole", is_flag=True, help="Every name of long lists.")(function)


def emit(text: str) -> None:
    """Write the result. A reader that has seen enough (``| head``) is no error."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes once more at exit: give it a place that takes everything.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def look(explain: frozenset[str] = frozenset()) -> Look:
    """How text should look here: wrapped and coloured on a terminal, long plain lines in a pipe or file.

    No colour where the terminal has none or the user wants none (https://no-color.org).
    """
    from canserve.render.page import Look

    if not sys.stdout.isatty():
        return Look(explain=explain)
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") == "dumb"
    return Look(shutil.get_terminal_size().columns, not plain, explain)


def remark(text: str, quiet: bool) -> None:
    """A line for a person, on stderr; nothing when the output is meant for a program or a file."""
    if not quiet and sys.stderr.isatty():
        click.echo(click.style(text, dim=True), err=True, color=not os.environ.get("NO_COLOR"))


class Progress:
    """Says on stderr what is being done once it takes longer than a second.

    One line that is drawn over on a terminal, else a line whenever what is being done has changed.
    """

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._terminal = sys.stderr.isatty()
        self._message = ""
        self._start = time.monotonic()
        self._done = threading.Event()
        self._ticker = threading.Thread(target=self._tick, name="progress", daemon=True)

    def __call__(self, message: str) -> None:
        """What is being done now, in a few words."""
        self._message = message

    def __enter__(self) -> Self:
        if not self._quiet:
            self._ticker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del kind, error, trace
        self._done.set()
        if not self._quiet:
            self._ticker.join()

    def _tick(self) -> None:
        from canserve.render.escape import visible

        if self._done.wait(PATIENCE):
            return
        said, turn = "", 0
        while not self._done.wait(_TICK):
            message = visible(self._line(), 200)
            if self._terminal:
                self._draw(message, turn)
                turn += 1
            elif message != said:
                print(message, file=sys.stderr, flush=True)
                said = message
        if self._terminal:
            self._clear()

    def _line(self) -> str:
        """What is said now."""
        return self._message

    def _clear(self) -> None:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def _draw(self, message: str, turn: int) -> None:
        seconds = f" ({time.monotonic() - self._start:.0f} s)"
        from canserve.render.progress import fitted

        said = fitted(message, shutil.get_terminal_size().columns - len(seconds) - 2)
        line = f"{_SPINNER[turn % len(_SPINNER)]} {said}{seconds}"
        print(f"\r{line}\x1b[K", end="", file=sys.stderr, flush=True)
