"""Classes of quantization methods: the compute capability each demands, and the schemes it tells apart.

vLLM and the engines that took its layers over share one protocol: a config class a method, with
``get_min_capability()``, in a folder where big methods have a package of their own.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from canserve.engines.static.graph import ClassGraph
from canserve.engines.static.interpret import RAISES
from canserve.engines.static.modules import module_of
from canserve.engines.static.sites import ClassSite, FunctionSite
from canserve.engines.static.values import Opaque, Record, Value
from canserve.facts import Fact, Known, Missing

_CLASS = re.compile(rb"^class (\w+)", re.MULTILINE)
_MINIMUM = "get_min_capability"

Schemes = tuple[Fact[tuple[str, ...]], Fact[Mapping[str, int | None]]]


class QuantClasses:
    """Reads the config classes of one build; ``folder`` holds them (``vllm/.../layers/quantization``)."""

    def __init__(self, graph: ClassGraph, folder: str) -> None:
        self._graph = graph
        self._sources = graph.sources
        self._folder = folder

    def minimum(self, site: ClassSite, method: str) -> Fact[int | None]:
        """What ``get_min_capability()`` returns, times ten; ``Known(None)``: the class sets no minimum."""
        value = self._ask(site, site)
        if isinstance(value, Opaque):
            value = self._ask(site, self._instance(site, method))
        found = self._graph.attribute(site, _MINIMUM)
        path, line = (found.owner.path, found.line) if found else (site.path, site.line)
        if isinstance(value, int) and not isinstance(value, bool):
            saw = f"{site.name}.{_MINIMUM}() is {value}"
            return Known(value if value > 0 else None, (self._sources.seen(path, saw, line),))
        why = "raises: it is not made for CUDA" if value is RAISES else "is decided at run time"
        return self._sources.unreadable(path, f"{site.name}.{_MINIMUM}() {why}")

    def _instance(self, site: ClassSite, method: str) -> Record:
        """The config as a checkpoint of this method makes it: fields that ``__init__`` takes over unchanged.

        One class may serve several methods and tell them by a switch named after the method
        (``use_mxfp8``); every other argument has its default.
        """
        init = self._graph.attribute(site, "__init__")
        if init is None or not isinstance(init.node, ast.FunctionDef):
            return Record((), (), site)
        whole = self._graph.whole(init.owner.path, init.node)
        args = init.node.args
        defaults = dict(zip([a.arg for a in reversed(args.args)], reversed(args.defaults), strict=False))
        fields: dict[str, Value] = {}
        for node in whole.body if whole is not None else ():
            match node:
                case ast.Assign([ast.Attribute(ast.Name("self"), field)], ast.Name(argument)):
                    default = defaults.get(argument)
                    if argument == f"use_{method}":
                        fields[field] = True
                    elif isinstance(default, ast.Constant):
                        fields[field] = default.value
                case _:
                    pass
        return Record(tuple(fields), fields.values(), site)

    def schemes(self, site: ClassSite) -> Schemes:
        """Names by which the method tells schemes apart, and minima that scheme classes set themselves."""
        names = self._names(site)
        folder = site.path.rsplit("/", 1)[0]
        files = [site.path] if folder == self._folder else self._sources.under(f"{folder}/")
        if (hole := self._sources.gap(f"{folder}/schemes/__init__.py")) is not None:
            return hole, hole
        self._sources.prefetch(files)
        minima: dict[str, int | None] = {}
        for path in files:
            raw = self._sources.raw(path)
            if isinstance(raw, Missing):
                return raw, raw
            defined = {match.decode() for match in _CLASS.findall(raw.value or b"")}
            names |= defined
            if raw.value and _MINIMUM.encode() in raw.value:
                minima |= self._own_minima(path, defined - {site.name})
        look = (self._sources.seen(site.path, f"{len(names)} names told apart by {site.name}"),)
        return Known(tuple(sorted(names)), look), Known(minima, look)

    def _names(self, site: ClassSite) -> set[str]:
        module = self._graph.module(site.module)
        names = {name for name in (module.bindings if module else ()) if name[:1].isupper()}
        init = self._graph.attribute(site, "__init__")
        if init is not None and isinstance(init.node, ast.FunctionDef):
            args = init.node.args
            names |= {arg.arg for arg in (*args.args, *args.kwonlyargs)} - {"self"}
        return names

    def _ask(self, site: ClassSite, owner: Value) -> Value:
        found = self._graph.attribute(site, _MINIMUM)
        if found is None or not isinstance(found.node, ast.FunctionDef):
            return None
        definer = found.owner
        method = FunctionSite(definer.module, found.node, definer.path, (), definer.scope)
        return self._graph.interpreter.call(method, [owner] if found.node.args.args else [])

    def _own_minima(self, path: str, names: set[str]) -> dict[str, int | None]:
        """Minima of classes that define ``get_min_capability`` themselves and do not only declare it."""
        out: dict[str, int | None] = {}
        for name in sorted(names):
            site = self._graph.class_named(module_of(path), name)
            if site is None or _MINIMUM not in self._graph.body(site):
                continue
            value = self._ask(site, site)
            if value is not RAISES:
                out[name] = value if isinstance(value, int) and value > 0 else None
        return out
