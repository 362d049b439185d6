"""What a container changed of its image, so that what both hold is read once.

The engine lists it path by path. What was read of one stands for the other where nothing of it was changed: compiled
files that Python leaves beside its sources aside, and folders in which something else changed.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Collection
from dataclasses import dataclass

from canserve.commands import containers
from canserve.facts import Missing
from canserve.probes.container.areas import within
from canserve.probes.container.asking import Described
from canserve.probes.container.naming import Held
from canserve.probes.container.way import Way
from canserve.transport.frames import Section
from canserve.transport.reach import Limits
from canserve.trees.container.state import Kept
from canserve.trees.image.layer import FOLDER

MAX_LIST = 1 << 20
"""Bytes of the list; of a container that changed more nothing is shared."""
_LINE = re.compile(r"([ACD]) /(.*)")


@dataclass(frozen=True, slots=True)
class Lent:
    """What was read of a container, for its image and for others of that, while one question is answered."""

    kept: Kept
    it: Held
    described: Described


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


def changes(it: Held, described: Described, way: Way) -> Changes | None:
    """Ask what a container changed; None: it was not said, or not understood."""
    ask = f"within 10 {shlex.join(containers.changes(described.program, it.name))}"
    answer = way.look(it, [Section("changes", ask, MAX_LIST)], Limits(whole=20.0)).section("changes")
    if isinstance(answer, Missing) or answer.status != 0 or not answer.whole:
        return None
    return understood(answer.text, described.mounts)


def understood(listed: str, shown: tuple[str, ...]) -> Changes | None:
    """What the engine listed; None: in a form that is not known."""
    found: list[tuple[str, str]] = []
    for line in listed.split("\n")[:-1]:
        match = _LINE.fullmatch(line)
        if match is None:
            return None
        found.append((match[1], posixpath.normpath(match[2])))
    changed = frozenset(path for _, path in found)
    return Changes(changed, frozenset(path for kind, path in found if kind == "C"), shown)
