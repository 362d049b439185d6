"""Which architectures keep recurrent state: linear attention or Mamba layers beside attention, or alone.

The model runner decides it by the class of the config (``isinstance(config, Qwen3NextConfig | ...)``), in
its first release with such models by a list of architectures. A model's module imports the config class
that it is written for, and so belongs to it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from canserve.engines.sglang.places import HYBRID, MODELS
from canserve.engines.sglang.reading import Reading
from canserve.engines.static import modules
from canserve.engines.static.scan import Imported
from canserve.engines.static.sites import ClassSite

_DECIDERS = r"is_hybrid_gdn|[a-z0-9_]*(?:mamba|hybrid|gdn|lightning|kda|linear|next)[a-z0-9_]*_config"
"""Names of the functions and properties that give the config of a model with recurrent layers, else None."""
_LAYERS = (b"attention.fla", b"attention.mamba", b"attention.linear", b"linear_attn")
"""What a module with recurrent layers takes from the engine; a hint, no proof."""


@dataclass(frozen=True, slots=True)
class HybridConfigs:
    """What the build decides by."""

    classes: set[str] = field(default_factory=set)
    """Names of config classes."""
    conditional: set[str] = field(default_factory=set)
    """Those of which only some configs have recurrent layers."""
    model_types: set[str] = field(default_factory=set)
    architectures: set[str] = field(default_factory=set)

    def recurrent(self, reading: Reading, architecture: str, site: ClassSite) -> bool | None:
        """Whether models of this class keep recurrent state; None: their config decides."""
        if architecture in self.architectures:
            return True
        if not self.classes and not self.conditional:
            return False
        annotated = _annotated(reading, site)
        if annotated and (decided := self._of(reading, annotated)) is not False:
            return decided
        bases = [base for base in reading.graph.mro(site)[0] if base.path.startswith(MODELS)]
        configs = [c for module in dict.fromkeys(b.module for b in bases) for c in _configs(reading, module)]
        by_import = self._of(reading, configs)
        if by_import and annotated is None:
            return True
        if by_import is not False:  # part of the config, or some of its kinds, may be such a one
            return None
        hinted = not annotated and any(word in reading.raw(b.path) for b in bases for word in _LAYERS)
        return None if hinted else False

    def _of(self, reading: Reading, configs: list[ClassSite]) -> bool | None:
        """Whether one of these config classes is, or inherits from, one that the build decides by."""
        names = {base.name for config in configs for base in reading.graph.mro(config)[0]}
        types = {reading.graph.attribute_value(config, "model_type") for config in configs}
        if names & self.classes or types & self.model_types:
            return True
        return None if names & self.conditional else False


def _annotated(reading: Reading, site: ClassSite) -> list[ClassSite] | None:
    """The engine's config classes by which ``config`` of ``__init__`` is annotated.

    Empty: annotated as something general (``PretrainedConfig``); None: not annotated.
    """
    init = reading.graph.attribute(site, "__init__")
    if init is None or isinstance(init.node, ast.expr):
        return None
    annotation = next((arg.annotation for arg in init.node.args.args if arg.arg == "config"), None)
    if annotation is None:
        return None
    names = [node.id for node in ast.walk(annotation) if isinstance(node, ast.Name)]
    found = (reading.graph.class_named(init.owner.module, name) for name in names)
    return [config for config in found if config is not None]


def _configs(reading: Reading, module: str) -> Iterator[ClassSite]:
    """The engine's config classes that a module imports or defines."""
    found = reading.graph.module(module)
    for name, bindings in found.bindings.items() if found else ():
        for binding in bindings:
            match binding.bound:
                case Imported(source, str() as original) if original.endswith("Config"):
                    if modules.within(source, reading.graph.top):
                        config = reading.graph.class_named(source, original)
                        if config is not None:
                            yield config
                case ast.ClassDef() as node if name.endswith("Config") and found is not None:
                    yield reading.graph.site(found, node)
                case _:
                    pass


def read_hybrid_configs(reading: Reading) -> HybridConfigs:
    """What the build's own functions name; nothing in builds older than such models."""
    found = HybridConfigs()
    for path in HYBRID:
        if reading.sources.has(path):
            for function in reading.functions(path, _DECIDERS):
                _add(found, function)
    return found


def _add(found: HybridConfigs, function: ast.AST) -> None:
    conditional = {id(part) for node in ast.walk(function) if _both(node) for part in ast.walk(node)}
    for node in ast.walk(function):
        match node:
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, kinds]):
                names = {inner.id for inner in ast.walk(kinds) if isinstance(inner, ast.Name)}
                (found.conditional if id(node) in conditional else found.classes).update(names)
            case ast.Compare(left=left, comparators=[listed]):
                subject = ast.unparse(left)
                if "architectures" in subject:
                    found.architectures.update(_texts(listed))
                elif "model_type" in subject:
                    found.model_types.update(_texts(listed))
            case _:
                pass


def _both(node: ast.AST) -> bool:
    return isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And)


def _texts(node: ast.expr) -> set[str]:
    found = (inner.value for inner in ast.walk(node) if isinstance(inner, ast.Constant))
    return {text for text in found if isinstance(text, str)}
