"""One reading of one LMDeploy build: its files, the class graph over them, and how a fact is cited."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from canserve.engines.sources import Sources
from canserve.engines.static.evaluate import Namespace
from canserve.engines.static.graph import ClassGraph
from canserve.facts import Cause, Evidence, Fact, Known, Missing
from canserve.subjects.build import Flag, Site, Want

T = TypeVar("T")

TOP = "lmdeploy"
MODULE_MAP = "lmdeploy/pytorch/models/module_map.py"
PYTORCH_LIST = "lmdeploy/pytorch/supported_models.py"
TURBOMIND_LIST = "lmdeploy/turbomind/supported_models.py"
PATCH = "lmdeploy/pytorch/models/patch.py"
ARCHS = "lmdeploy/archs.py"
MESSAGES = "lmdeploy/messages.py"
CLI = ("lmdeploy/cli/serve.py", "lmdeploy/cli/utils.py")
HF_CONFIGS = ("lmdeploy/hf_configs/__init__.py", "lmdeploy/pytorch/transformers/__init__.py")
"""Where configs of its own are registered, newest first."""
CONVERTERS = ("lmdeploy/turbomind/converter.py", "lmdeploy/turbomind/deploy/converter.py")
TURBOMIND_MODELS = ("lmdeploy/turbomind/models/", "lmdeploy/turbomind/deploy/source_model/")
"""Folders of the classes that convert a checkpoint for TurboMind, newest first."""
PYTORCH, TURBOMIND = "pytorch", "turbomind"


class ReadingError(Exception):
    """A fact that cannot be had from this build; ``missing`` says why."""

    def __init__(self, missing: Missing) -> None:
        super().__init__(missing.why)
        self.missing = missing


class Reading:
    """What every reader of this engine works with; its methods raise ReadingError."""

    def __init__(self, sources: Sources, want: Want) -> None:
        self.sources = sources
        self.want = want
        self.graph = ClassGraph(sources, TOP)
        self.flags: Known[Mapping[str, Flag]] | None = None
        """The server's flags, once they were read: many facts are choices of one."""

    # -- files

    def has(self, path: str) -> bool:
        """Whether the build has the file; fails where that could not be looked up."""
        if gap := self.sources.gap(path):
            raise ReadingError(gap)
        return self.sources.has(path)

    def first(self, paths: Sequence[str]) -> str | None:
        """The first of these files that the build has; None when none exists."""
        return next((path for path in paths if self.has(path)), None)

    def under(self, folder: str) -> list[str]:
        """All Python files below a folder (``lmdeploy/serve/parsers/``)."""
        if gap := self.sources.gap(f"{folder}__init__.py"):
            raise ReadingError(gap)
        return self.sources.under(folder)

    def text(self, path: str) -> str:
        """A file's text; empty when it does not exist."""
        fact = self.sources.text(path)
        if isinstance(fact, Missing):
            raise ReadingError(fact)
        return fact.value or ""

    def tree(self, path: str) -> ast.Module:
        """A file's syntax tree; an empty one when it does not exist."""
        fact = self.sources.tree(path)
        if isinstance(fact, Missing):
            raise ReadingError(fact)
        return fact.value or ast.Module([], [])

    def constants(self, path: str) -> Namespace:
        """A file's module-level constants."""
        fact = self.graph.constants.of(path)
        if isinstance(fact, Missing):
            raise ReadingError(fact)
        if fact.value is None:
            raise self.unknown(path, "no such file")
        return fact.value

    def function(self, path: str, name: str) -> ast.FunctionDef | None:
        """The function or method of that name in a file; None when there is none."""
        if not re.search(rf"\bdef {name}\b", self.text(path)):
            return None
        found = (node for node in ast.walk(self.tree(path)) if isinstance(node, ast.FunctionDef))
        return next((node for node in found if node.name == name), None)

    def method(self, path: str, owner: str, name: str) -> ast.FunctionDef | None:
        """A method of a class at the top level of a file; None when there is none."""
        classes = (
            node for node in self.tree(path).body if isinstance(node, ast.ClassDef) and node.name == owner
        )
        found = (node for one in classes for node in one.body if isinstance(node, ast.FunctionDef))
        return next((node for node in found if node.name == name), None)

    # -- answers

    def seen(self, at: Site, saw: str) -> Evidence:
        """Evidence for a look at a place of this build."""
        return self.sources.seen(at.file, saw, at.line or None)

    def unknown(self, path: str, what: str) -> ReadingError:
        """It stands where it should, in a form that is not understood."""
        return ReadingError(self.sources.unknown_form(path, what))

    def unavailable(self, why: str, ask: str, path: str) -> ReadingError:
        """This build does not say."""
        return ReadingError(Missing(Cause.UNAVAILABLE, why, (self.sources.seen(path, why),), ask))


def attempt(read: Callable[[Reading], Fact[T]], reading: Reading) -> Fact[T]:
    """The fact, or why it is missing."""
    try:
        return read(reading)
    except ReadingError as error:
        return error.missing
    except RecursionError:
        return Missing(Cause.UNREADABLE, "the sources are nested too deeply to be followed")
