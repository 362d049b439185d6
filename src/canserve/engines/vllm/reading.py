"""What the parts of the vLLM reader share: the files, the class graph, and how a fact is cited."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from canserve.engines.sources import Sources
from canserve.engines.static.evaluate import Namespace
from canserve.engines.static.excerpt import Excerpts
from canserve.engines.static.graph import ClassGraph
from canserve.engines.static.values import Value
from canserve.facts import Evidence, Known, Missing
from canserve.subjects.build import Site

T = TypeVar("T")

TOP = "vllm"


@dataclass
class Reading:
    """One reading of one build."""

    sources: Sources
    graph: ClassGraph = field(init=False)
    excerpts: Excerpts = field(init=False)

    def __post_init__(self) -> None:
        self.graph = ClassGraph(self.sources, TOP)
        self.excerpts = Excerpts(self.sources)

    def constants(self, path: str) -> Namespace | Missing | None:
        """A file's constants; None: no such file."""
        fact = self.graph.constants.of(path)
        return fact if isinstance(fact, Missing) else fact.value

    def constant(self, paths: Sequence[str], name: str) -> tuple[str, Value] | Missing | None:
        """The first of several files that defines a constant, with its value; None: none of them does."""
        for path in paths:
            names = self.constants(path)
            if isinstance(names, Missing):
                return names
            if names is None:
                missing = self.sources.gap(path)
                if missing is not None:
                    return missing
            elif name in names:
                return path, names[name]
        return None

    def tree(self, path: str) -> ast.Module | Missing | None:
        """A file's parsed text, for one use; None: no such file."""
        fact = self.sources.parse(path)
        return fact if isinstance(fact, Missing) else fact.value

    def existing(self, paths: Sequence[str]) -> list[str] | Missing:
        """Those of the paths that are there; Missing when one of them could not be looked for."""
        for path in paths:
            missing = self.sources.gap(path)
            if missing is not None:
                return missing
        return [path for path in paths if self.sources.has(path)]

    def known(self, value: T, saw: str, *places: Site | str) -> Known[T]:
        """A fact with the places in the build that gave it."""
        return Known(value, tuple(Evidence(self.sources.subject, str(place), saw) for place in places))

    def unknown_form(self, path: str, what: str) -> Missing:
        """A file that says something in a way that is not understood."""
        return self.sources.unknown_form(path, what)
