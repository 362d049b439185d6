"""TensorRT-LLM: how its releases are read, from an environment, a source tree or an image.

Its entries on the package index are stubs without code. ``registry`` finds the architectures of both back ends,
``classes`` resolves them; ``configs`` is about config.json, ``quantization``, ``serving`` and ``flags`` about
what a server can be told. ``reading`` holds the places in the source tree, for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from canserve.engines.requirements import requirement
from canserve.engines.sources import Sources
from canserve.engines.static.collection import no_collection
from canserve.engines.tensorrt_llm import configs, flags, quantization, serving
from canserve.engines.tensorrt_llm.classes import ClassReader
from canserve.engines.tensorrt_llm.reading import FILES, TOP, TORCH, ZOO, Reading, attempt
from canserve.engines.tensorrt_llm.registry import Registry, read_engine_flags, read_registry
from canserve.engines.unmodelled import Unmodelled
from canserve.facts import Fact, Known, Missing, derive
from canserve.subjects.build import (
    NOT_ASKED,
    Build,
    Fallback,
    Identity,
    ModelClass,
    Site,
    Transformers,
    Want,
)


class TensorRTLLM(Unmodelled):
    """Reads any TensorRT-LLM build from its own files."""

    name = "tensorrt-llm"
    distribution = "tensorrt-llm"
    package = TOP
    checkout = None

    def first_files(self, sources: Sources, want: Want) -> Sequence[str]:
        """The files that a reading with this want needs."""
        del want
        return [path for path in (*FILES, *sources.under(f"{TORCH}modeling_")) if sources.has(path)]

    def requirement(self, requires: Sequence[str], name: str) -> str | None:
        """The specifier under which an installation requires another package."""
        return requirement(requires, name)

    def read(self, sources: Sources, identity: Identity, transformers: Transformers, want: Want) -> Build:
        """Read the build; what cannot be read is Missing."""
        with no_collection():
            return self._read(Reading(sources, want), identity, transformers)

    def _read(self, reading: Reading, identity: Identity, transformers: Transformers) -> Build:
        found = attempt(read_registry, reading)
        want = reading.want
        return Build(
            identity=identity,
            transformers=transformers,
            registry=derive(found, lambda registry: registry.rows),
            classes=_classes(reading, found),
            dropped=derive(found, lambda _: {}),
            elsewhere=derive(found, lambda _: {}),
            plugins=derive(found, lambda _: ()),
            fallback=derive(found, _no_fallback),
            config_shims=attempt(configs.read_shims, reading),
            config_fixups=attempt(configs.read_fixups, reading),
            quantization=attempt(quantization.read_quantization, reading),
            engine_flags=attempt(read_engine_flags, reading),
            kv_cache_dtypes=attempt(flags.read_cache_types, reading),
            reasoning_parsers=attempt(serving.read_reasoning, reading),
            tool_parsers=attempt(serving.read_tools, reading),
            flags=attempt(flags.read_flags, reading) if want.flags else NOT_ASKED,
            flag_syntax=attempt(flags.read_flag_syntax, reading) if want.flags else NOT_ASKED,
            launchers=attempt(serving.read_launchers, reading),
            load_formats=attempt(serving.read_load_formats, reading),
            gguf_architectures=attempt(_no_gguf, reading),
        )


def _classes(reading: Reading, found: Fact[Registry]) -> dict[str, Fact[ModelClass | None]]:
    """The wanted architectures that are registered."""
    if isinstance(found, Missing):
        return {}
    rows, reader = found.value.rows, ClassReader(reading)
    wanted = rows.keys() if reading.want.architectures is None else reading.want.architectures
    return {
        name: attempt(lambda _, row=rows[name]: reader.read(row), reading)  # type: ignore[misc]
        for name in sorted(wanted) if name in rows
    }  # fmt: skip


def _no_fallback(found: Registry) -> Fallback | None:
    """An architecture that neither back end registers ends in an error."""
    del found
    return None


def _no_gguf(reading: Reading) -> Fact[Mapping[str, Site] | None]:
    """No release reads GGUF files."""
    nothing: Mapping[str, Site] | None = {}
    return Known(nothing, (reading.sources.seen(ZOO, "no GGUF files are read"),))
