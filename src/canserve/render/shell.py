"""Processes as shell commands, to be pasted; nothing here runs them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence

from canserve.subjects.launch import Process

INDENT = "  "


def quoted(word: str, placeholders: Iterable[str] = ()) -> str:
    """One word as a shell reads it; ``$NAME`` of a placeholder stays a variable."""
    names = "|".join(map(re.escape, placeholders))
    if not names or not re.search(rf"\$({names})\b", word):
        return shlex.quote(word)
    escaped = re.sub(rf'[\\"`]|\$(?!(?:{names})\b)', r"\\\g<0>", word)
    return f'"{escaped}"'


def line(process: Process, placeholders: Iterable[str] = ()) -> str:
    """The whole command on one line, its environment before it."""
    return " ".join(word for group in _groups(process, tuple(placeholders)) for word in group)


def lines(process: Process, placeholders: Iterable[str], width: int) -> list[str]:
    """The command over several lines that a shell joins again; a flag stays with its value."""
    out, row = list[str](), ""
    for group in _groups(process, tuple(placeholders)):
        text = " ".join(group)
        lead = INDENT if out else ""
        if row and len(row) + 1 + len(text) + 2 > width:
            out.append(f"{row} \\")
            row = f"{INDENT}{text}"
        else:
            row = f"{row} {text}" if row else f"{lead}{text}"
    return [*out, row]


def _groups(process: Process, placeholders: Sequence[str]) -> Iterable[list[str]]:
    """Words that belong together: a variable, a flag and its values, everything before the first flag."""
    for name, value in process.environment.items():
        yield [f"{name}={quoted(value, placeholders)}"]
    group: list[str] = []
    for word in process.argv:
        if word.startswith("--") and group:
            yield group
            group = []
        group.append(quoted(word, placeholders))
    if group:
        yield group
