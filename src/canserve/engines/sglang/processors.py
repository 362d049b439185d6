"""Processors of multimodal inputs: which architectures have one.

``import_processors`` imports every module of a package and takes the ``models`` list of every processor
class; an architecture that is multimodal and stands in no list cannot be served.
"""

from __future__ import annotations

import ast
from functools import cached_property

from canserve.engines.sglang.places import PROCESSORS
from canserve.engines.sglang.reading import Reading
from canserve.engines.static.modules import module_of
from canserve.engines.static.sites import ClassSite
from canserve.engines.static.values import Ref, Value
from canserve.facts import Missing


class Processors:
    """Looks an architecture up in the processor modules of one build."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    @cached_property
    def _files(self) -> list[str]:
        """The processor modules; none in builds that choose the processor in code."""
        folder = next((folder for folder in PROCESSORS if self._reading.sources.under(folder)), None)
        paths = [] if folder is None else self._reading.direct(folder)
        self._reading.sources.prefetch(paths)
        return paths

    def has(self, architecture: str) -> bool | None:
        """Whether some processor lists the architecture; None where no list decides it."""
        if not self._files:
            return None
        unknown = False
        for path in self._files:
            data = self._reading.sources.raw(path)
            if isinstance(data, Missing):
                unknown = True
            elif architecture.encode() in (data.value or b""):
                found = self._lists(path, architecture)
                if found:
                    return True
                unknown |= found is None
        return None if unknown else False

    def _lists(self, path: str, architecture: str) -> bool | None:
        """Whether a class of this module lists it; None when a list cannot be read."""
        module = self._reading.graph.module(module_of(path))
        if module is None:
            return None
        unknown = False
        for binding in (binding for bindings in module.bindings.values() for binding in bindings):
            if not isinstance(binding.bound, ast.ClassDef):
                continue
            site = self._reading.graph.site(module, binding.bound)
            listed = self._reading.graph.body(site).get("models")
            if listed is None:
                continue
            if not isinstance(listed.node, ast.expr):
                continue
            names = self._names(module.name, listed.node)
            unknown |= names is None
            if names and architecture in names:
                return True
        return None if unknown else False

    def _names(self, module: str, node: ast.expr) -> set[str] | None:
        """Names of the classes in a list; None when it is put together at run time."""
        if isinstance(node, ast.List | ast.Tuple) and all(isinstance(part, ast.Name) for part in node.elts):
            return {self._class_name(module, part) for part in node.elts}
        value = self._reading.graph.interpreter.value(module, node)
        if not isinstance(value, list | tuple | set):
            return None
        found = {self._name_of(item) for item in value}
        return None if None in found else {name for name in found if name is not None}

    def _class_name(self, module: str, node: ast.expr) -> str:
        site = self._reading.graph.resolve_expression(module, node)[0]
        return site.name if isinstance(site, ClassSite) else ast.unparse(node)

    def _name_of(self, value: Value) -> str | None:
        if isinstance(value, Ref) and value.module is not None:
            site = self._reading.graph.class_named(value.module, value.origin or value.name)
            return None if site is None else site.name
        return value.name if isinstance(value, ClassSite) else None
