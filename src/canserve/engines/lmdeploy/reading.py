"""One reading of one LMDeploy build: its files, the class graph over them, and how a fact is cited."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from canserve.engines.reading import BuildReading, ReadingError, attempt
from canserve.engines.sources import Sources
from canserve.engines.static.graph import ClassGraph
from canserve.facts import Known
from canserve.subjects.build import Flag, Want

__all__ = ["Reading", "ReadingError", "attempt"]

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


class Reading(BuildReading):
    """What every reader of this engine works with."""

    def __init__(self, sources: Sources, want: Want) -> None:
        self.graph = ClassGraph(sources, TOP)
        super().__init__(sources, want, self.graph.constants)
        self.flags: Known[Mapping[str, Flag]] | None = None
        """The server's flags, once they were read: many facts are choices of one."""

    def under(self, folder: str) -> list[str]:
        """All Python files below a folder (``lmdeploy/serve/parsers/``)."""
        if gap := self.sources.gap(f"{folder}__init__.py"):
            raise ReadingError(gap)
        return self.sources.under(folder)

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
