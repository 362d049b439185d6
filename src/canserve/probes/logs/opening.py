"""The files of a deployment: one log, a folder with one file a rank, or what comes through a pipe."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import BinaryIO

from canserve.checks.diagnosis.log import Reading
from canserve.probes.logs.blocks import is_packed
from canserve.probes.logs.matching import Matcher
from canserve.probes.logs.reading import read_log

MAX_FILES = 1024
MAX_DEPTH = 4
_PEEK, _HEAD = 4096, 16
"""First bytes, of which a text has hardly a zero, and the very first, of which it has none."""
Told = Callable[[str], None]


def read_stream(stream: BinaryIO, matcher: Matcher) -> Reading:
    """What comes through a pipe, up to its end."""
    return read_log("-", stream, matcher)


def read_path(path: Path, matcher: Matcher, told: Told) -> list[Reading]:
    """One file, or every file below a folder. Raises OSError where the path itself cannot be opened."""
    if not path.is_dir():
        told(f"reading {path.name}")
        return [_read(path, path.name, matcher)]
    readings, problems = [], []
    for count, found in enumerate(_files(path, "", 0)):
        if isinstance(found, Reading):
            problems.append(found)
        elif count >= MAX_FILES:
            problems.append(
                Reading(str(path.name), problem=f"more than {MAX_FILES} files: the rest is not read")
            )
            break
        else:
            told(f"reading {found}")
            readings.append(_tried(path / found, found, matcher))
    return [*readings, *problems]


def _tried(path: Path, name: str, matcher: Matcher) -> Reading:
    try:
        with path.open("rb") as file:
            first = file.read(_PEEK)
        if not is_packed(first) and (b"\0" in first[:_HEAD] or first.count(b"\0") > len(first) // 10):
            return Reading(name, problem="no text: not read")
        return _read(path, name, matcher)
    except OSError as error:
        return Reading(name, problem=error.strerror or type(error).__name__)


def _read(path: Path, name: str, matcher: Matcher) -> Reading:
    # Whoever asks for one file may name a pipe or a link; in a folder neither is followed.
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    with closing(os.fdopen(handle, "rb", buffering=0)) as stream:
        return read_log(name, stream, matcher)


def _files(root: Path, folder: str, depth: int) -> Iterator[str | Reading]:
    """Names of regular files from the root, sorted; links are not followed, depth is bounded."""
    try:
        with os.scandir(root / folder) as entries:
            names = _sorted(entries)
    except OSError as error:
        yield Reading(folder or str(root.name), problem=error.strerror or type(error).__name__)
        return
    for name, mode in names:
        path = f"{folder}/{name}" if folder else name
        if stat.S_ISREG(mode):
            yield path
        elif stat.S_ISDIR(mode):
            if depth < MAX_DEPTH:
                yield from _files(root, path, depth + 1)
            else:
                yield Reading(path, problem=f"deeper than {MAX_DEPTH} folders: not read")
        else:
            what = "a link" if stat.S_ISLNK(mode) else "no regular file"
            yield Reading(path, problem=f"{what}: not read")


def _sorted(entries: Iterator[os.DirEntry[str]]) -> Sequence[tuple[str, int]]:
    found = []
    for count, entry in enumerate(entries):
        if count >= MAX_FILES * 4:
            break
        try:
            found.append((entry.name, entry.stat(follow_symlinks=False).st_mode))
        except OSError:  # gone meanwhile
            continue
    return sorted(found)
