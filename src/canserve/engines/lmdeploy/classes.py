"""Registered classes, resolved: which class serves an architecture, and whether its module can be imported."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cached_property

from canserve.engines.lmdeploy.reading import ARCHS, TOP, TURBOMIND_MODELS, Reading
from canserve.engines.lmdeploy.registry import CONVERTER
from canserve.engines.static.closure import Imports
from canserve.engines.static.modules import module_of, within
from canserve.engines.static.sites import Absent, Assigned, ClassSite, FunctionSite, Unseen
from canserve.facts import Fact, Known
from canserve.subjects.build import ModelClass, Registered, Site

FOLLOWED = (
    f"{TOP}.pytorch.models",
    f"{TOP}.pytorch.transformers",
    f"{TOP}.hf_configs",
    f"{TOP}.vl.model",
    *(folder.rstrip("/").replace("/", ".") for folder in TURBOMIND_MODELS),
)
"""Packages whose imports count for a class; all others are imported with the engine, whatever the model."""
REGISTRY = "INPUT_MODELS"
"""What the converters of TurboMind register themselves with, by a decorator."""
EYES, SEEING = f"{TOP}.vl.model.builder", f"{TOP}/vl/model/builder.py"
"""Imports what prepares images for every model with eyes, whichever is served."""
VISION = "check_vl_llm"
"""The function that tells models with eyes from others, by architecture."""


class ClassReader:
    """Resolves registered architectures; what all of them share is read once."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._imports = Imports(reading.graph, lambda name: any(within(name, top) for top in FOLLOWED))

    def read(self, row: Registered) -> Fact[ModelClass | None]:
        """One registered architecture; ``Known(None)``: its module or class does not exist."""
        module, name = self._target(row)
        found = self._reading.graph.resolve(module, name)[0]
        if not isinstance(found, ClassSite | FunctionSite):
            return self._unresolved(row, found)
        eyes = [EYES] if self._sees(row.architecture) and self._reading.has(SEEING) else []
        needs = self._imports.closure([module, found.module, *eyes])
        if needs.unread:
            return needs.unread[0]
        at = Site(found.path, found.node.lineno)
        resolved = ModelClass(
            module=found.module,
            name=name,
            at=at,
            interfaces=self._interfaces(row.architecture),
            imports=needs.taken("transformers"),
            broken=tuple(dict.fromkeys(map(str, needs.broken))),
            outside=needs.others("transformers"),
        )
        return Known(
            resolved, (self._reading.seen(row.at, row.name), self._reading.seen(at, f"class {name}"))
        )

    def _target(self, row: Registered) -> tuple[str, str]:
        """Module and class; of a converter, those that registered its name."""
        return (
            self._converters.get(row.name, (row.module, row.name))
            if row.module == CONVERTER
            else (
                row.module,
                row.name,
            )
        )

    def _unresolved(self, row: Registered, found: object) -> Fact[ModelClass | None]:
        match found:
            case Unseen(missing=missing):
                return missing
            case Absent():
                seen = self._reading.seen(row.at, f"no {row.module}.{row.name}")
                return Known(None, (seen,))
            case Assigned(path=path):
                raise self._reading.unknown(path, f"{row.name} is made by code that is not followed")
            case _:
                raise self._reading.unknown(row.at.file, f"{row.name} is not a class of the engine")

    @cached_property
    def _converters(self) -> dict[str, tuple[str, str]]:
        """Name -> module and class of TurboMind's converters."""
        found: dict[str, tuple[str, str]] = {}
        for folder in TURBOMIND_MODELS:
            paths = self._reading.under(folder)
            self._reading.sources.prefetch(paths)
            for path in paths:
                if f"@{REGISTRY}.register_module" in self._reading.text(path):
                    module = module_of(path)
                    found.update((name, (module, cls)) for name, cls in _registered(self._reading.tree(path)))
        return found

    def _interfaces(self, architecture: str) -> Mapping[str, bool | str | None]:
        """What the class can do, in the names that other engines use for the same."""
        return {"supports_pp": False, "supports_multimodal": self._sees(architecture)}

    def _sees(self, architecture: str) -> bool | None:
        if self._seeing is None:
            return None
        return None if architecture in self._perhaps else architecture in self._seeing

    @cached_property
    def _seeing(self) -> frozenset[str] | None:
        """Names in ``check_vl_llm``; None: the release has no such function."""
        function = self._reading.function(ARCHS, VISION) if self._reading.has(ARCHS) else None
        return None if function is None else _names(function)

    @cached_property
    def _perhaps(self) -> frozenset[str]:
        """Names for which it looks at the config or at the back end too."""
        function = self._reading.function(ARCHS, VISION) if self._reading.has(ARCHS) else None
        found: set[str] = set()
        for node in ast.walk(function) if function is not None else ():
            if isinstance(node, ast.BoolOp):
                found |= _names(node)
        return frozenset(found)


def _registered(tree: ast.Module) -> list[tuple[str, str]]:
    """``@INPUT_MODELS.register_module(name='qwen3')`` above a class -> its names."""
    found: list[tuple[str, str]] = []
    for node in tree.body:
        for decorator in node.decorator_list if isinstance(node, ast.ClassDef) else ():
            match decorator:
                case ast.Call(ast.Attribute(ast.Name(registry), "register_module")) if registry == REGISTRY:
                    assert isinstance(node, ast.ClassDef)
                    found += [(name, node.name) for name in _names(decorator)]
                case _:
                    pass
    return found


def _names(node: ast.AST) -> frozenset[str]:
    """All strings in a piece of code."""
    return frozenset(
        part.value
        for part in ast.walk(node)
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    )
