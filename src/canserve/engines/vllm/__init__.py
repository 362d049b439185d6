"""vLLM: every release and development build, read from its own files.

``registry`` finds the architectures, ``classes`` what each can do and needs, ``configs`` and ``fallback`` the
other ways to a model; ``quantization``, ``attention``, ``serving``, ``parsers`` and ``flags`` the rest. Each
reads all historical forms of its fact, newest first, and says "unknown form" for any other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from canserve.engines.habits import Habits, Habitual
from canserve.engines.requirements import requirement
from canserve.engines.sources import Sources
from canserve.engines.static.collection import no_collection
from canserve.engines.vllm.attention import read_attention
from canserve.engines.vllm.classes import ClassReader
from canserve.engines.vllm.configs import nothing_rewritten, read_architecture_types, read_shims
from canserve.engines.vllm.drafts import draft_classes
from canserve.engines.vllm.fallback import read_fallback
from canserve.engines.vllm.flag_syntax import flag_syntax as read_flag_syntax
from canserve.engines.vllm.flags import read_flags
from canserve.engines.vllm.moe import read_moe
from canserve.engines.vllm.parsers import REASONING, TOOLS, read_parsers
from canserve.engines.vllm.plan import first_round, second_round
from canserve.engines.vllm.quantization import read_quantization, read_vendors
from canserve.engines.vllm.reading import Reading
from canserve.engines.vllm.registry import DROPPED, ELSEWHERE, read_list, read_registry
from canserve.engines.vllm.serving import (
    read_cache_types,
    read_gguf,
    read_launchers,
    read_load_formats,
    read_plugins,
    read_speculative,
)
from canserve.facts import Fact, Known
from canserve.subjects.build import NOT_ASKED, Build, Identity, ModelClass, Registered, Transformers, Want

if TYPE_CHECKING:
    from canserve.memory.quantity import Quantity
    from canserve.memory.request import Request, Serving

LOADING = Habits(
    engine="vllm",
    across_replicas=True,
    absorbs=True,
    sections=4,
    text_only=("language_model_only",),
    whole_towers=(("mm_encoder_tp_mode", "data"),),
    draft=("speculative_config",),
    pads=True,
)
"""FusedMoEParallelConfig.make cuts experts over replicas, MLACommonImpl.process_weights_after_loading keeps the
second copy, MRotaryEmbedding makes its table four times as long, MultiModalConfig has the options."""


class VLLM(Habitual):
    """The vLLM engine."""

    name = "vllm"
    distribution = "vllm"
    package = "vllm"
    checkout = None
    habits = LOADING

    def first_files(self, sources: Sources, want: Want) -> Sequence[str]:
        """The files that a reading with this want certainly needs; the registry in them names the others."""
        return first_round(Reading(sources), want)

    def read(self, sources: Sources, identity: Identity, transformers: Transformers, want: Want) -> Build:
        """Read the build from its files."""
        with no_collection():
            return self._read(Reading(sources), identity, transformers, want)

    def _read(self, reading: Reading, identity: Identity, transformers: Transformers, want: Want) -> Build:
        reading.sources.prefetch(first_round(reading, want))
        reading.sources.prefetch(second_round(reading, want))
        registry = read_registry(reading)
        classes = _classes(reading, registry, want)
        methods = read_quantization(reading, want)
        build = Build(
            identity=identity,
            transformers=transformers,
            registry=registry,
            classes=classes,
            dropped=read_list(reading, DROPPED),
            elsewhere=read_list(reading, ELSEWHERE),
            plugins=read_plugins(reading),
            fallback=read_fallback(reading),
            config_shims=read_shims(reading, want),
            config_fixups=nothing_rewritten(reading),
            architecture_rewrites=nothing_rewritten(reading),
            architecture_types=read_architecture_types(reading),
            quantization=methods,
            vendor_quantization=read_vendors(reading) if want.vendors else NOT_ASKED,
            kv_cache_dtypes=read_cache_types(reading),
            attention_backends=read_attention(reading) if want.attention else NOT_ASKED,
            moe_backends=read_moe(reading) if want.moe else NOT_ASKED,
            load_formats=read_load_formats(reading),
            gguf_architectures=read_gguf(methods),
        )
        return _with_flags(build, reading) if want.flags else build

    def requirement(self, requires: Sequence[str], name: str) -> str | None:
        """The specifier under which ``pip install vllm`` requires another package."""
        return requirement(requires, name)

    def memory(self, request: Request, weights: Sequence[Quantity]) -> Fact[Serving]:
        """What this release can hold of a model."""
        from canserve.engines.loaded import with_peaks
        from canserve.engines.vllm.memory import serving

        return with_peaks(serving(request, weights), request, LOADING)


def _with_flags(build: Build, reading: Reading) -> Build:
    """The command line, and what only it can ask for."""
    return replace(
        build,
        flags=read_flags(reading),
        flag_syntax=read_flag_syntax(reading),
        reasoning_parsers=read_parsers(reading, REASONING),
        tool_parsers=read_parsers(reading, TOOLS),
        speculative=read_speculative(reading, build.registry),
        draft_classes=draft_classes(reading),
        launchers=read_launchers(reading, build.identity.requires),
    )


def _classes(
    reading: Reading, registry: Fact[Mapping[str, Registered]], want: Want
) -> Mapping[str, Fact[ModelClass | None]]:
    if not isinstance(registry, Known):
        return {}
    reader = ClassReader(reading)
    names = registry.value.keys() if want.architectures is None else want.architectures
    return {name: reader.read(registry.value[name]) for name in sorted(names) if name in registry.value}
