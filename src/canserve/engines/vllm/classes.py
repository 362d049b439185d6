"""Registered classes, resolved through the build's own modules: where they are defined, what they can do.

What a class can do is asked in the build's own words: ``_ModelInfo.from_model_cls`` names the fields and the
functions that compute them, and those functions are followed step by step on the class.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cached_property

from canserve.engines.static.closure import Imports
from canserve.engines.static.modules import module_of, within
from canserve.engines.static.sites import Absent, Assigned, ClassSite, FunctionSite, Unseen
from canserve.engines.static.values import CallValue, Value
from canserve.engines.vllm.reading import Reading
from canserve.engines.vllm.registry import FILES, MODELS
from canserve.facts import Fact
from canserve.subjects.build import ModelClass, Registered, Site

FOLLOWED = (MODELS, "vllm.models", "vllm.transformers_utils", "vllm.multimodal")
"""Packages that model modules pull in and that take names from transformers; the engine's core does so for
every model alike, so a build in which that fails does not start at all."""
INTERFACES = (f"{MODELS}.interfaces_base", f"{MODELS}.interfaces")
Traits = Mapping[str, bool | str | None]


class ClassReader:
    """Reads registered classes of one build."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._graph = reading.graph
        self._imports = Imports(reading.graph, self._followed)
        reading.graph.interpreter.natives.stand_ins["supports_kw"] = self._supports_kw

    def read(self, row: Registered) -> Fact[ModelClass | None]:
        """The class of one registry row; ``Known(None)``: its module or class does not exist."""
        sites = self._graph.resolve(row.module, row.name)
        site = next((found for found in sites if isinstance(found, ClassSite)), None)
        if site is None:
            return self._unresolved(row, sites[0])
        for base in self._graph.linear(site):
            if isinstance(base, Unseen):
                return base.missing
        pulled = self._imports.closure([row.module, site.module])
        if pulled.unread:
            return pulled.unread[0]
        at = Site(site.path, site.line)
        found = ModelClass(
            module=site.module,
            name=site.name,
            at=at,
            interfaces=self._traits(row.architecture, site),
            imports=pulled.taken("transformers"),
            broken=tuple(dict.fromkeys(map(str, pulled.broken))),
            outside=pulled.others("transformers"),
        )
        return self._reading.known(found, f"class {site.name}", row.at, at)

    def _followed(self, module: str) -> bool:
        """Modules whose imports count for a class; the registry's package imports its own core alone."""
        if module == MODELS and self._reading.sources.has(FILES[0]):
            return False
        return any(within(module, package) for package in FOLLOWED)

    def _supports_kw(
        self,
        function: Value,
        name: Value,
        *,
        requires_kw_only: bool = False,
        allow_var_kwargs: bool = True,
    ) -> bool:
        """The engine's helper of that name, the same in every release, which stands in a large file."""
        signature = self._graph.interpreter.natives.signature(function)
        kinds = {p.name: p.kind for p in signature.parameters.values()}
        kind = kinds.get(str(name))
        if kind == "KEYWORD_ONLY" or (kind and kind.startswith("POSITIONAL") and not requires_kw_only):
            return True
        return allow_var_kwargs and any(
            kind == "VAR_KEYWORD" and other != name for other, kind in kinds.items()
        )

    def _unresolved(self, row: Registered, found: object) -> Fact[ModelClass | None]:
        path = self._graph.file_of(row.module) or f"{row.module.replace('.', '/')}.py"
        match found:
            case Unseen(missing=missing):
                return missing
            case Absent():
                return self._reading.known(None, f"no {row.module}.{row.name}", row.at, path)
            case Assigned(path=path):
                return self._reading.unknown_form(path, f"{row.name} is made by code that is not followed")
            case _:
                return self._reading.unknown_form(path, f"{row.name} is not a class of the engine")

    def _traits(self, architecture: str, site: ClassSite) -> Traits:
        if self._info is not None:
            made = self._graph.interpreter.call(self._info, [site])
            if isinstance(made, CallValue):
                return {name: _plain(value) for name, value in made.kwargs.items()}
        found = {name: self._graph.interpreter.call(ask, [site]) for name, ask in self._questions.items()}
        found |= {
            name: self._graph.interpreter.call(ask, [architecture]) for name, ask in self._by_name.items()
        }
        return {name: _plain(value) for name, value in found.items()}

    @cached_property
    def _info(self) -> FunctionSite | None:
        """``_ModelInfo.from_model_cls``, where the build has it."""
        site = self._graph.class_named(module_of(FILES[0]), "_ModelInfo")
        found = None if site is None else self._graph.attribute(site, "from_model_cls")
        if found is None or not isinstance(found.node, ast.FunctionDef):
            return None
        return FunctionSite(found.owner.module, found.node, found.owner.path)

    @cached_property
    def _questions(self) -> dict[str, FunctionSite]:
        """Older builds: every public predicate about a model class in the interface modules."""
        out: dict[str, FunctionSite] = {}
        for module in INTERFACES:
            found = self._graph.module(module)
            for name in found.bindings if found else ():
                site = self._graph.resolve(module, name)[0]
                if isinstance(site, FunctionSite) and not name.startswith("_") and _asks(site, "model"):
                    out[name] = site
        return out

    @cached_property
    def _by_name(self) -> dict[str, FunctionSite]:
        """Older builds: ``ModelRegistry.is_embedding_model(model_arch)`` and the like."""
        out: dict[str, FunctionSite] = {}
        for path in FILES:
            site = self._graph.class_named(module_of(path), "ModelRegistry")
            for name, found in (self._graph.body(site) if site else {}).items():
                if name.startswith("is_") and isinstance(found.node, ast.FunctionDef):
                    function = FunctionSite(module_of(path), found.node, path)
                    if _asks(function, "model_arch"):
                        out[name] = function
        return out


def _asks(function: FunctionSite, about: str) -> bool:
    """Whether the function takes exactly this one argument."""
    args = function.node.args
    return [arg.arg for arg in args.args] == [about] and not args.kwonlyargs and not args.posonlyargs


def _plain(value: Value) -> bool | str | None:
    if isinstance(value, bool | str):
        return value
    if isinstance(value, tuple | list) and all(isinstance(item, str) for item in value):
        return ",".join(map(str, value))
    return None
