"""What a container changed of its image, so that what both hold is read once.

The engine lists it path by path. What was read of one stands for the other where nothing of it was changed: compiled
files that Python leaves beside its sources aside, and folders in which something else changed.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from canserve.commands import containers
from canserve.probes.container.areas import within
from canserve.probes.container.asking import GUARD, Described
from canserve.probes.container.naming import Held
from canserve.transport.frames import Answer, Section
from canserve.transport.reach import Look
from canserve.trees.container.state import Kept
from canserve.trees.image.layer import FOLDER

MAX_LIST = 1 << 20
"""Bytes of the list; of a container that changed more nothing is shared."""
_LINE = re.compile(r"([ACD]) /(.*)")


@dataclass(frozen=True, slots=True)
class Changes:
    """Paths of a container that are not as in its image."""

    changed: frozenset[str]
    """Added, removed or changed."""
    touched: frozenset[str]
    """Changed ones: of a folder that only says that something in it did."""
    shown: tuple[str, ...]
    """Places where folders or files of the machine, or volumes, are shown."""

    def spare(self, kept: Kept) -> bool:
        """Whether what was read is the same in the container and in its image."""
        if any(within(place, kept.read) or _around(place, kept.read) for place in self.shown):
            return False
        return not any(self._matters(path, kept) for path in self.changed)

    def _matters(self, path: str, kept: Kept) -> bool:
        if "__pycache__" in path.split("/") or not (within(path, kept.read) or _around(path, kept.read)):
            return False
        node = kept.layer.nodes.get(path)
        inner = node is not None and node.kind == FOLDER
        return not (path in self.touched and (inner or (node is None and _around(path, kept.read))))


def _around(path: str, areas: Collection[str]) -> bool:
    """Whether one of the areas lies in it."""
    return any(within(area, {path}) for area in areas)


def sections(it: Held) -> list[Section]:
    """The question, of a container."""
    if it.kind != "container":
        return []
    asked = ((each, shlex.join(containers.changes(each, it.name))) for each in it.programs)
    return [
        Section(f"{program}_changes", f"{GUARD[program]}within 10 {ask}", MAX_LIST) for program, ask in asked
    ]


def changes(it: Held, described: Described, look: Look) -> Changes | None:
    """What a container changed; None: it was not said, or not understood."""
    answer = look.section(f"{described.program}_changes") if it.kind == "container" else None
    if not isinstance(answer, Answer) or answer.status != 0 or not answer.whole:
        return None
    found: list[Sequence[str]] = []
    for line in answer.text.split("\n")[:-1]:
        match = _LINE.fullmatch(line)
        if match is None:
            return None
        found.append((match[1], posixpath.normpath(match[2])))
    changed = frozenset(path for _, path in found)
    touched = frozenset(path for kind, path in found if kind == "C")
    return Changes(changed, touched, described.mounts)
