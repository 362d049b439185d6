"""One reading of one SGLang build: its files, the class graph over them, and how a fact is cited."""

from __future__ import annotations

import ast
import re

from canserve.engines.reading import BuildReading, ReadingError, attempt
from canserve.engines.sglang.places import TOP, directly
from canserve.engines.sglang.snippets import Function, functions
from canserve.engines.sources import MAX_SOURCE, Sources
from canserve.engines.static.closure import Closure
from canserve.engines.static.graph import ClassGraph
from canserve.engines.static.modules import module_of, within
from canserve.engines.static.sites import FunctionSite
from canserve.facts import Missing
from canserve.subjects.build import Import, Site, Want

__all__ = ["Reading", "ReadingError", "attempt", "transformers_imports"]


class Reading(BuildReading):
    """What every reader of this engine works with."""

    def __init__(self, sources: Sources, want: Want, vllm: bool = False) -> None:
        """``vllm``: whether a usual installation of the build brings vLLM along."""
        self.graph = ClassGraph(sources, TOP)
        super().__init__(sources, want, self.graph.constants)
        self.vllm = vllm
        self._texts: dict[str, str] = {}

    # -- files

    def raw(self, path: str) -> bytes:
        """A file's bytes; none when it does not exist."""
        fact = self.sources.raw(path)
        if isinstance(fact, Missing):
            raise ReadingError(fact)
        data = fact.value or b""
        if len(data) > MAX_SOURCE:
            raise ReadingError(self.sources.unreadable(path, f"{len(data)} bytes are too many"))
        return data

    def text(self, path: str) -> str:
        """A file's text; empty when it does not exist."""
        if path not in self._texts:
            self._texts[path] = self.raw(path).decode("utf-8", "replace")
        return self._texts[path]

    def direct(self, folder: str) -> list[str]:
        """The Python files directly in a folder, ``__init__`` included."""
        if gap := self.sources.gap(f"{folder}__init__.py"):
            raise ReadingError(gap)
        return directly(self.sources, folder)

    def function(self, path: str, name: str) -> FunctionSite | None:
        """A function that stands at the top level of a file."""
        sites = self.graph.resolve(module_of(path), name)
        return next((site for site in sites if isinstance(site, FunctionSite)), None)

    def functions(self, path: str, names: str) -> list[Function]:
        """Functions and methods of a file by a pattern of their names, at best without parsing all of it."""
        found = functions(self.text(path), names)
        if found is not None:
            return found
        nodes = ast.walk(self.tree(path))
        wanted = (n for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
        return [node for node in wanted if re.fullmatch(names, node.name)]


def transformers_imports(needs: Closure) -> list[Import]:
    """What of a module's needs transformers must offer, each once."""
    found: dict[Import, None] = {}
    for need in needs.outside:
        if within(need.site.module, "transformers"):
            name = None if need.site.name == "*" else need.site.name
            found[Import(need.site.module, name, Site(need.path, need.site.line))] = None
    return list(found)
