"""SGLang: how its releases are read.

``registry`` finds the architectures, ``classes`` resolves them, ``fallback`` says what happens to others;
``configs`` and ``rewrites`` are about config.json; ``quantization``, ``flags`` and ``serving`` about what a
server can be told. ``reading`` holds the places in the source tree, for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from canserve.engines.habits import Habits, Habitual
from canserve.engines.requirements import requirement
from canserve.engines.sglang import configs, flags, quantization, rewrites, serving
from canserve.engines.sglang.classes import ClassReader
from canserve.engines.sglang.fallback import read_fallback
from canserve.engines.sglang.places import TOP, first_files
from canserve.engines.sglang.reading import Reading, attempt
from canserve.engines.sglang.registry import Registry, read_registry
from canserve.engines.sources import Sources
from canserve.engines.static.collection import no_collection
from canserve.facts import Fact, Known, Missing
from canserve.subjects.build import (
    NOT_ASKED,
    Build,
    Fallback,
    Identity,
    ModelClass,
    Registered,
    Transformers,
    Want,
)

if TYPE_CHECKING:
    from canserve.memory.quantity import Quantity
    from canserve.memory.request import Request, Serving

LOADING = Habits(
    engine="sglang",
    across_replicas=False,
    absorbs=True,
    sections=1,
    text_only=("language_only",),
    whole_towers=(("mm_enable_dp_encoder", "true"),),
    draft=("speculative_algorithm",),
)
"""DeepseekV2WeightLoaderMixin.post_load_weights keeps the second copy; options are those of server_args.py."""


class SGLang(Habitual):
    """Reads any SGLang build from its own files."""

    name = "sglang"
    distribution = "sglang"
    package = TOP
    checkout = None
    habits = LOADING

    def first_files(self, sources: Sources, want: Want) -> Sequence[str]:
        """The files that a reading with this want needs, fetched together up front."""
        return first_files(sources, want)

    def requirement(self, requires: Sequence[str], name: str) -> str | None:
        """As installed to serve: with the extra ``all``, into which releases until 0.5.2 put the runtime.

        Releases until 0.4.3 leave transformers to their vLLM; the runtime needs it all the same.
        """
        found = requirement(requires, name, extras=("all", "srt"), project=self.name)
        return "" if found is None and name == "transformers" else found

    def memory(self, request: Request, weights: Sequence[Quantity]) -> Fact[Serving]:
        """What this release can hold of a model."""
        from canserve.engines.sglang.memory import holds

        return holds(request, weights)

    def read(self, sources: Sources, identity: Identity, transformers: Transformers, want: Want) -> Build:
        """Read the build; what cannot be read is Missing."""
        with no_collection():
            return self._read(sources, identity, transformers, want)

    def _read(self, sources: Sources, identity: Identity, transformers: Transformers, want: Want) -> Build:
        reading = Reading(sources, want, vllm=self._brings_vllm(sources, identity))
        found = attempt(_registry, reading)
        registry = found.value if isinstance(found, Known) else None
        named = reading if want.flags else None  # what flags may name
        rows = found if isinstance(found, Missing) else found.value.fact(want.architectures)
        replaced = attempt(rewrites.read_architecture_rewrites, reading)
        return Build(
            identity=identity,
            transformers=transformers,
            registry=rows,
            classes={} if registry is None else _classes(reading, registry, replaced),
            dropped=_none_named(found),
            elsewhere=_none_named(found),
            plugins=attempt(serving.read_plugins, reading),
            fallback=_fallback(reading, found),
            config_shims=attempt(configs.read_config_shims, reading),
            config_fixups=attempt(rewrites.read_fixups, reading),
            architecture_types=attempt(rewrites.read_architecture_types, reading),
            architecture_rewrites=replaced,
            quantization=attempt(quantization.read_quantization, reading),
            vendor_quantization=attempt(quantization.read_vendors, reading),
            kv_cache_dtypes=attempt(serving.read_kv_cache_dtypes, reading),
            reasoning_parsers=attempt(serving.read_reasoning_parsers, named) if named else NOT_ASKED,
            tool_parsers=attempt(serving.read_tool_parsers, named) if named else NOT_ASKED,
            speculative=attempt(lambda r: serving.read_speculative(r, registry), named)
            if named
            else NOT_ASKED,
            draft_classes=attempt(rewrites.read_drafts, reading),
            flags=attempt(flags.read_flags, named) if named else NOT_ASKED,
            flag_syntax=attempt(flags.read_flag_syntax, reading),
            attention_backends=attempt(serving.read_attention, reading) if want.attention else NOT_ASKED,
            launchers=attempt(serving.read_launchers, reading),
            load_formats=attempt(serving.read_load_formats, reading),
            gguf_architectures=attempt(serving.read_gguf, reading),
        )

    def _brings_vllm(self, sources: Sources, identity: Identity) -> bool:
        """Whether vLLM, of which some releases borrow quantization methods, is there or required."""
        if sources.under("vllm/"):
            return True
        requires = identity.requires
        return isinstance(requires, Known) and self.requirement(requires.value, "vllm") is not None


def _classes(
    reading: Reading, registry: Registry, replaced: Fact[Mapping[str, str]]
) -> dict[str, Fact[ModelClass | None]]:
    """The wanted architectures that are registered, and what the build puts in their place."""
    wanted = registry.rows.keys() if reading.want.architectures is None else set(reading.want.architectures)
    if isinstance(wanted, set) and isinstance(replaced, Known):
        wanted |= {replaced.value[name] for name in reading.want.model_types or () if name in replaced.value}
    reader = ClassReader(reading, registry)

    def one(row: Registered) -> Fact[ModelClass | None]:
        return attempt(lambda _: reader.read(row), reading)

    return {name: one(registry.rows[name]) for name in sorted(wanted) if name in registry.rows}


def _registry(reading: Reading) -> Fact[Registry]:
    return Known(read_registry(reading))


def _fallback(reading: Reading, registry: Fact[Registry]) -> Fact[Fallback | None]:
    if isinstance(registry, Missing):
        return registry
    return attempt(lambda r: read_fallback(r, registry.value), reading)


def _none_named(registry: Fact[Registry]) -> Fact[Mapping[str, str]]:
    """No release names architectures that it dropped or that a plugin serves."""
    return registry if isinstance(registry, Missing) else Known({}, registry.value.evidence)
