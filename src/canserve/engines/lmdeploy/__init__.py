"""LMDeploy: how its releases are read.

Two engines in one package: TurboMind (C++, with converters in Python) and PyTorch. ``registry`` finds what
each serves, ``classes`` resolves it, ``configs`` says how config.json is parsed, ``quantization`` which weights
each back end takes; ``flags`` and ``serving`` what a server can be told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from canserve.engines.lmdeploy import configs, flags, quantization, serving
from canserve.engines.lmdeploy import registry as registries
from canserve.engines.lmdeploy.classes import ClassReader
from canserve.engines.lmdeploy.reading import (
    ARCHS,
    CLI,
    CONVERTERS,
    HF_CONFIGS,
    MESSAGES,
    MODULE_MAP,
    PATCH,
    PYTORCH_LIST,
    TOP,
    TURBOMIND_LIST,
    TURBOMIND_MODELS,
    Reading,
    attempt,
)
from canserve.engines.lmdeploy.registry import Registry
from canserve.engines.requirements import requirement
from canserve.engines.sources import Sources
from canserve.engines.static.collection import no_collection
from canserve.engines.unmodelled import Unmodelled
from canserve.facts import Cause, Fact, Known, Missing
from canserve.subjects.build import (
    Build,
    Fallback,
    Identity,
    ModelClass,
    Registered,
    Site,
    Transformers,
    Want,
)

T = TypeVar("T")


class LMDeploy(Unmodelled):
    """Reads any LMDeploy build from its own files."""

    name = "lmdeploy"
    distribution = name
    package = TOP
    checkout = None

    def first_files(self, sources: Sources, want: Want) -> Sequence[str]:
        """The files that a reading with this want needs, fetched together up front."""
        paths = [MODULE_MAP, PYTORCH_LIST, TURBOMIND_LIST, PATCH, ARCHS, MESSAGES, *HF_CONFIGS, *CONVERTERS]
        paths += [
            quantization.CONFIG,
            *quantization.LINEAR,
            quantization.AWQ[0],
            *quantization.EXPERTS,
            *quantization.FORMATS,
        ]
        paths += [*serving.LOADERS, *configs.OPENERS, *CLI, flags.ENTRY]
        if want.flags:
            paths += [p for place in serving.PARSERS for p in sources.under(place) if "_parser" in p]
            paths += sources.under(serving.CONFIGURATIONS)
        if want.architectures != frozenset():
            paths += [path for folder in TURBOMIND_MODELS for path in sources.under(folder)]
        if want.architectures is None:
            paths += sources.under("lmdeploy/pytorch/models/")
        return [path for path in dict.fromkeys(paths) if sources.has(path)]

    def requirement(self, requires: Sequence[str], name: str) -> str | None:
        """The specifier under which ``pip install lmdeploy`` requires another package."""
        return requirement(requires, name)

    def read(self, sources: Sources, identity: Identity, transformers: Transformers, want: Want) -> Build:
        """Read the build; what cannot be read is Missing."""
        with no_collection():
            return self._read(Reading(sources, want), identity, transformers)

    def _read(self, reading: Reading, identity: Identity, transformers: Transformers) -> Build:
        reading.sources.prefetch(self.first_files(reading.sources, reading.want))
        found = attempt(_registry, reading)
        rows: Fact[Mapping[str, Registered]]
        rows = found if isinstance(found, Missing) else Known(found.value.rows(), found.value.evidence)
        build = Build(
            identity=identity,
            transformers=transformers,
            registry=rows,
            classes=_classes(reading, rows),
            dropped=attempt(registries.read_dropped, reading),
            elsewhere=_nothing(reading, {}, "no list of architectures that plugins serve"),
            plugins=_nothing(reading, (), "no entry points for plugins"),
            fallback=_with(found, lambda registry: _fallback(reading, registry)),
            config_shims=attempt(configs.read_config_shims, reading),
            config_fixups=_nothing(reading, {}, "configs are not rewritten"),
            architecture_types=_nothing(reading, {}, "model types are not repaired"),
            architecture_rewrites=_nothing(reading, {}, "architectures are not replaced"),
            plain_config=attempt(configs.read_plain_config, reading),
            trusts_code=attempt(configs.read_trusts_code, reading),
            auto_map_rule=attempt(configs.read_auto_map, reading),
            quantization=_with(
                found, lambda known: attempt(lambda r: quantization.read_quantization(r, known), reading)
            ),
            literal_methods=Known(
                Site(quantization.CONFIG, 1),
                (reading.sources.seen(quantization.CONFIG, "quant_method decides"),),
            ),
            vendor_quantization=_nothing(reading, {}, "no lists for accelerators of other vendors"),
            kv_cache_dtypes=attempt(serving.read_kv_cache_dtypes, reading),
            kv_cache_engines=attempt(serving.read_kv_cache_engines, reading),
            engine_flags=attempt(serving.read_engine_flags, reading),
            attention_backends=_unstated(reading, "attention back ends are chosen in code that is not read"),
            load_formats=attempt(serving.read_load_formats, reading),
            gguf_architectures=_nothing(reading, {}, "GGUF files are not loaded"),
        )
        return _with_flags(build, reading, found) if reading.want.flags else build


def _with_flags(build: Build, reading: Reading, registry: Fact[Registry]) -> Build:
    """The command line, and what only it can ask for."""
    return replace(
        build,
        flags=attempt(flags.read_flags, reading),
        flag_syntax=attempt(flags.read_flag_syntax, reading),
        reasoning_parsers=attempt(serving.read_reasoning_parsers, reading),
        tool_parsers=attempt(serving.read_tool_parsers, reading),
        speculative=_with(
            registry, lambda known: attempt(lambda r: serving.read_speculative(r, known), reading)
        ),
        draft_classes=attempt(serving.read_drafts, reading),
        launchers=attempt(serving.read_launchers, reading),
    )


def _registry(reading: Reading) -> Fact[Registry]:
    return Known(registries.read_registry(reading))


def _with(registry: Fact[Registry], read: Callable[[Registry], Fact[T]]) -> Fact[T]:
    """A fact that depends on the registry."""
    return registry if isinstance(registry, Missing) else read(registry.value)


def _fallback(reading: Reading, registry: Registry) -> Fact[Fallback | None]:
    """None refuses what neither table lists; releases that replace layers try it with what they have."""
    if not registry.layers:
        return Known(None, (reading.sources.seen(PATCH, "an architecture without a class is refused"),))
    why = "an architecture that is not listed is tried with transformers' own class, which may do or fail"
    look = reading.sources.seen(ARCHS, why)
    return Missing(
        Cause.UNAVAILABLE, why, (look,), "start it once, or use a newer release, which says no or yes"
    )


def _nothing(reading: Reading, value: T, saw: str) -> Known[T]:
    """A fact that no release has anything to say about."""
    return Known(value, (reading.sources.seen(MODULE_MAP, saw),))


def _unstated(reading: Reading, why: str) -> Missing:
    """A fact that the build has and no file states in one place."""
    return Missing(Cause.UNAVAILABLE, why, (reading.sources.seen(MODULE_MAP, why),), "start it once")


def _classes(
    reading: Reading, registry: Fact[Mapping[str, Registered]]
) -> Mapping[str, Fact[ModelClass | None]]:
    if not isinstance(registry, Known):
        return {}
    rows, wanted = registry.value, reading.want.architectures
    reader = ClassReader(reading)

    def one(row: Registered) -> Fact[ModelClass | None]:
        return attempt(lambda _: reader.read(row), reading)

    return {name: one(rows[name]) for name in (rows if wanted is None else sorted(wanted)) if name in rows}
