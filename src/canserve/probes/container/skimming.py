"""What a machine is asked to thin out for us: the program that does it there, and what came, put together."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from canserve.facts import Missing
from canserve.transport.reach import Limits
from canserve.trees.image.layer import FOLDER, Layer, Node
from canserve.trees.names import unreached

MAX_OUTPUT = 400 << 20
"""Bytes of one script's output, packed."""
ROOM = 384 << 20
"""Bytes of kept files."""
SECONDS = 100
"""For one script."""
ROUNDS = 3
NO_PYTHON = 3
"""Exit status where the machine has no Python that could do it."""


def limits(seconds: float) -> Limits:
    """Of a script that ends by itself after so many seconds."""
    return Limits(whole=seconds + 30.0, output=MAX_OUTPUT + (1 << 20))


def python_needed(python: str) -> str:
    """The line of a script that ends it where there is no Python 3.7."""
    recent = "import sys; sys.exit(sys.version_info < (3, 7))"
    return f"command -v {python} >/dev/null 2>&1 && {python} -c '{recent}' || exit {NO_PYTHON}"


def skim(python: str, plan: Mapping[str, Any]) -> str:
    """The line that starts ``trees/container/skim.py`` there, with what it is to read."""
    source = resources.files("canserve.trees.container").joinpath("skim.py").read_text("utf-8")
    return f"{python} -I -c {shlex.quote(source)} {shlex.quote(json.dumps(plan))}"


@dataclass
class Gathered:
    """Everything that was read so far."""

    nodes: dict[str, Node] = field(default_factory=dict)
    packed: dict[str, bytes] = field(default_factory=dict)
    holes: list[tuple[str, str]] = field(default_factory=list)

    def add(self, found: Layer) -> None:
        """A round's yield. A folder of which only the name came takes the place of nothing that is known."""
        for path, node in found.nodes.items():
            if node.kind != FOLDER or path not in self.nodes:
                self.nodes[path] = node
        self.packed.update(found.packed)
        self.holes += found.holes

    def layer(self) -> Layer:
        """As the one layer of a tree."""
        return Layer(self.nodes, holes=tuple(self.holes), packed=self.packed)


def contents(found: Layer, paths: Iterable[str], subject: str) -> dict[str, bytes | Missing]:
    """These files out of what was read of them again."""
    lost = unreached(subject, "", "a file that could not be read any more", "look again")
    return {path: content if (content := found.content(path)) is not None else lost for path in paths}
