"""Registered classes, resolved: what they can do, and whether their modules can be imported.

SGLang keeps most of what a class can do in lists of architectures (``is_multimodal_model``,
``is_generation_model``); pipeline parallelism it asks of the class itself, by the parameters of its
``forward``.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cached_property

from canserve.engines.sglang.hybrid import HybridConfigs, read_hybrid_configs
from canserve.engines.sglang.places import MODEL_CONFIG, PREDICATES, SRT
from canserve.engines.sglang.processors import Processors
from canserve.engines.sglang.reading import Reading, transformers_imports
from canserve.engines.sglang.registry import Registry
from canserve.engines.static.bounds import Impossible
from canserve.engines.static.classes import NoAttribute
from canserve.engines.static.closure import Imports
from canserve.engines.static.modules import within
from canserve.engines.static.sites import ClassSite, FunctionSite, Unseen
from canserve.engines.static.values import strings
from canserve.facts import Fact, Known
from canserve.subjects.build import ModelClass, Registered, Site

PIPELINE_PARAMETER = "pp_proxy_tensors"
"""The parameter of ``forward`` by which the model runner tells that a model can be cut into stages."""
_MODELS = f"{SRT}/models".replace("/", ".")
"""Modules whose imports are followed: what lies outside is imported with the engine, whatever the model."""


class ClassReader:
    """Resolves registered architectures; what all of them share is read once."""

    def __init__(self, reading: Reading, registry: Registry) -> None:
        self._reading = reading
        self._registry = registry
        self._imports = Imports(reading.graph, lambda module: within(module, _MODELS))

    def read(self, row: Registered) -> Fact[ModelClass | None]:
        """One registered architecture; ``Known(None)``: its module or class does not exist."""
        sites = self._reading.graph.resolve(row.module, row.name)
        site = next((site for site in sites if isinstance(site, ClassSite)), None)
        if site is None:
            unseen = next((site for site in sites if isinstance(site, Unseen)), None)
            if unseen is not None:
                return unseen.missing
            return Known(None, (self._reading.seen(row.at, f"no class {row.module}.{row.name}"),))
        needs = self._imports.closure([row.module, *self._registry.imported])
        if needs.unread:
            return needs.unread[0]
        broken = dict.fromkeys(str(need) for need in needs.broken)
        at = Site(site.path, site.line)
        found = ModelClass(
            module=site.module,
            name=site.name,
            at=at,
            interfaces=self.interfaces(row.architecture, site),
            imports=tuple(transformers_imports(needs)),
            broken=(*broken, *self._registry.clashes[:3]),
            outside=needs.others("transformers"),
        )
        return Known(found, (self._reading.seen(at, f"class {site.name}"),))

    def interfaces(self, architecture: str, site: ClassSite) -> Mapping[str, bool | str | None]:
        """What the class can do, in the names that other engines use for the same."""
        multimodal = self._asked("is_multimodal_model", architecture)
        generates = self._asked("is_generation_model", architecture)
        recurrent = self._hybrid.recurrent(self._reading, architecture, site)
        attention_free = architecture in self._attention_free
        found: dict[str, bool | str | None] = {
            "supports_pp": self._supports_pp(site),
            "supports_multimodal": multimodal,
            "supports_lora": None if self._has_lora else False,  # no class refuses it; its layers may
            "is_text_generation_model": generates,
            "is_pooling_model": None if generates is None else not generates,
            "is_hybrid": False if attention_free else recurrent,
            "is_attention_free": attention_free,
            "has_inner_state": True if attention_free else recurrent,
        }
        if multimodal:
            found["has_processor"] = self._processors.has(architecture)
        return found

    # -- lists of architectures

    def _asked(self, predicate: str, architecture: str) -> bool | None:
        """What a function of the build says of an architecture; None where it does not decide."""
        function = self._predicates.get(predicate)
        if function is None:
            # Before there was such a function every architecture generated text.
            return True if predicate == "is_generation_model" else None
        answer = self._reading.graph.interpreter.call(function, [[architecture]])
        return answer if isinstance(answer, bool) else None

    @cached_property
    def _predicates(self) -> dict[str, FunctionSite]:
        found: dict[str, FunctionSite] = {}
        for path in PREDICATES:
            text = self._reading.text(path)
            for name in ("is_multimodal_model", "is_generation_model"):
                if name in found or f"def {name}(" not in text:
                    continue
                function = self._reading.function(path, name)
                first = function.node.args.args[:1] if function is not None else []
                # The oldest releases ask the model's path instead: no architecture decides there.
                if function is not None and first and "arch" in first[0].arg:
                    found[name] = function
        return found

    @cached_property
    def _attention_free(self) -> frozenset[str]:
        """Architectures of state space models without any attention."""
        path = self._reading.first(MODEL_CONFIG)
        if path is None or "PURE_SSM_ARCHITECTURES" not in self._reading.text(path):
            return frozenset()
        listed = strings(self._reading.constants(path).get("PURE_SSM_ARCHITECTURES"))
        return frozenset(listed or ())

    @cached_property
    def _hybrid(self) -> HybridConfigs:
        return read_hybrid_configs(self._reading)

    @cached_property
    def _processors(self) -> Processors:
        return Processors(self._reading)

    @cached_property
    def _has_lora(self) -> bool:
        return bool(self._reading.sources.under(f"{SRT}/lora/"))

    # -- the class itself

    def _supports_pp(self, site: ClassSite) -> bool | None:
        try:
            forward = self._reading.graph.interpreter.attribute(site, "forward")
        except NoAttribute:
            return False
        except Impossible:
            return None
        if not isinstance(forward, FunctionSite):
            return None
        arguments = forward.node.args
        return any(_named(arg) for arg in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs))


def _named(arg: ast.arg) -> bool:
    return arg.arg == PIPELINE_PARAMETER
