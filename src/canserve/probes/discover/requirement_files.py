"""Requirements of a source tree that keeps them in files of its own."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from packaging.requirements import InvalidRequirement, Requirement

from canserve.facts import Evidence, Fact, Known, Missing
from canserve.probes.discover.environment import Place
from canserve.trees.names import below

FILES = (
    "requirements/cuda.txt",
    "requirements-cuda.txt",
    "requirements/common.txt",
    "requirements-common.txt",
    "requirements.txt",
)
"""The first that is there; builds for CUDA are what is judged where nothing else is said."""
MAX_FILES = 20
MAX_LINES = 5_000


def from_files(root: Place) -> Fact[tuple[str, ...]] | None:
    """Requirements from the usual files; None: there is none of them."""
    for folder in dict.fromkeys((root.path, root.path.rpartition("/")[0])):
        for name in FILES:
            path = below(folder, name)
            found = root.look.file(path)
            if isinstance(found, Missing):
                return found
            if found.value is not None:
                return _read(root, path)
    return None


def _read(root: Place, first: str) -> Fact[tuple[str, ...]]:
    """One file and those that it includes with ``-r``."""
    todo, seen, lines = [first], list[str](), list[str]()
    evidence: list[Evidence] = []
    while todo and len(seen) < MAX_FILES:
        path = todo.pop(0)
        seen.append(path)
        found = root.look.file(path)
        if isinstance(found, Missing):
            return found
        if found.value is None:
            continue
        own = list(_lines(found.value.decode("utf-8", "replace")))
        evidence.append(root.look.seen(path, f"{len(own)} lines"))
        for line in own:
            if included := re.match(r"(?:-r|--requirement)[ =]*(\S+)", line):
                inside = posixpath.normpath(posixpath.join(posixpath.dirname(path), included[1]))
                if not inside.startswith(("../", "/")) and inside not in seen and inside not in todo:
                    todo.append(inside)
            elif _is_requirement(line):
                lines.append(line)
    return Known(tuple(lines[:MAX_LINES]), tuple(evidence))


def _lines(text: str) -> Iterator[str]:
    """Lines as pip reads them: comments taken out, continued lines joined."""
    for line in re.sub(r"\\\r?\n", " ", text).splitlines()[:MAX_LINES]:
        if plain := re.sub(r"(^|\s)#.*$", "", line[:2_000]).strip():
            yield plain


def _is_requirement(line: str) -> bool:
    try:
        Requirement(line)
    except InvalidRequirement:
        return False
    return True


def from_egg_info(info: Place) -> Fact[tuple[str, ...]] | None:
    """``requires.txt`` as setuptools writes it: sections ``[extra]``, ``[:marker]``, ``[extra:marker]``."""
    path = below(info.path, "requires.txt")
    found = info.look.file(path)
    if isinstance(found, Missing):
        return found
    if found.value is None:
        return None
    lines: list[str] = []
    conditions: list[str] = []
    for line in _lines(found.value.decode("utf-8", "replace")):
        if section := re.fullmatch(r"\[([A-Za-z0-9._-]*)(?::(.*))?\]", line):
            extra, marker = section[1], section[2]
            conditions = [f"({marker})"] if marker else []
            conditions += [f'extra == "{extra}"'] if extra else []
        elif _is_requirement(line):
            lines.append(f"{line}; {' and '.join(conditions)}" if conditions else line)
    return Known(tuple(lines), (info.look.seen(path, f"{len(lines)} lines"),))
