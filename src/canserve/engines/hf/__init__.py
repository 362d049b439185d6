"""transformers as an engine of its own: ``transformers serve``, and what ``AutoModelForCausalLM`` loads.

``registry`` holds the classes that generate text, ``quantization`` the quantizers, ``serve`` the server's flags.
How other engines see the library is read elsewhere (``engines/transformers``): here it is the build.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from canserve.engines.hf import quantization, registry, serve
from canserve.engines.hf.reading import Reading, attempt
from canserve.engines.requirements import requirement
from canserve.engines.sources import Sources
from canserve.engines.static.collection import no_collection
from canserve.engines.transformers.gguf import LOADER
from canserve.engines.transformers.table import merge, read_table
from canserve.engines.unmodelled import Unmodelled
from canserve.facts import Cause, Fact, Known, Missing
from canserve.subjects.build import (
    NOT_ASKED,
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
AUTO = "transformers/models/auto/"
WEIGHTS = ("transformers/utils/__init__.py", "transformers/file_utils.py", "transformers/modeling_utils.py")
"""Where the names of weight files are written, newest first; the last one is large, and read last."""


class HuggingFace(Unmodelled):
    """Reads any release or source tree of transformers as the engine it is."""

    name = "transformers"
    distribution = name
    package = "transformers"
    checkout = None

    def first_files(self, sources: Sources, want: Want) -> Sequence[str]:
        """The files that a reading with this want needs, fetched together up front."""
        paths = [*registry.TABLES, *registry.CONFIGS, "transformers/__init__.py"]
        if want.quantization != frozenset():
            paths += [quantization.AUTO, quantization.CONFIGS]
        if want.flags:
            paths += [serve.TYPER, serve.ARGPARSE, *sources.under("transformers/cli/serving/")]
        if want.quantization is None:
            paths += [*sources.under("transformers/quantizers/"), *quantization.LAYERS.values()]
        paths += [
            quantization.LAYERS[name] for name in quantization.LAYERS if name in (want.quantization or ())
        ]
        return [path for path in dict.fromkeys(paths) if sources.has(path)]

    def requirement(self, requires: Sequence[str], name: str) -> str | None:
        """The specifier under which another package is required; of itself it is the very release."""
        return requirement(requires, name, extras=("torch", "serving"), project=self.name)

    def read(self, sources: Sources, identity: Identity, transformers: Transformers, want: Want) -> Build:
        """Read the build; what cannot be read is Missing."""
        with no_collection():
            return self._read(Reading(sources, want), identity, transformers)

    def _read(self, reading: Reading, identity: Identity, transformers: Transformers) -> Build:
        sources, want = reading.sources, reading.want
        sources.prefetch(self.first_files(sources, want))
        rows = attempt(registry.read_registry, reading)
        return Build(
            identity=identity,
            transformers=itself(sources, identity, transformers),
            registry=rows,
            classes=_classes(reading, rows),
            dropped=_nothing(sources, {}, "no list of classes that left"),
            elsewhere=_nothing(sources, {}, "no list of classes that plugins bring"),
            plugins=_nothing(sources, (), "no entry points for plugins"),
            fallback=_nothing(
                sources, _REMOTE, "classes of the repository's own code load with trust_remote_code"
            ),
            config_shims=_nothing(sources, {}, "AutoConfig is its own"),
            config_fixups=_nothing(sources, {}, "configs are not rewritten"),
            architecture_types=_nothing(sources, {}, "model types are not repaired"),
            architecture_rewrites=_nothing(sources, {}, "architectures are not replaced"),
            plain_config=_nothing(sources, None, "AutoConfig refuses types that it does not know"),
            trusts_code=_nothing(sources, None, "trust_remote_code has to be given"),
            auto_map_rule=_nothing(sources, None, "architectures decide"),
            quantization=attempt(quantization.read_quantization, reading),
            literal_methods=_nothing(sources, Site(quantization.AUTO, 1), "quant_method decides"),
            vendor_quantization=_nothing(sources, {}, "no lists for accelerators of other vendors"),
            kv_cache_dtypes=_nothing(sources, ("auto",), "the server's cache has the model's own type"),
            kv_cache_engines=_nothing(sources, {}, "one engine"),
            engine_flags=_nothing(sources, {}, "one engine"),
            reasoning_parsers=_nothing(sources, (), "no reasoning parsers"),
            tool_parsers=_nothing(sources, (), "no tool parsers"),
            speculative=_nothing(sources, {}, "the server does not guess ahead"),
            draft_classes=_nothing(sources, {}, "the server does not guess ahead"),
            flags=attempt(serve.read_flags, reading) if want.flags else NOT_ASKED,
            flag_syntax=attempt(serve.read_flag_syntax, reading) if want.flags else NOT_ASKED,
            attention_backends=_unstated(sources, "attention implementations are chosen by each class"),
            launchers=attempt(serve.read_launchers, reading) if want.flags else NOT_ASKED,
            load_formats=attempt(_load_formats, reading),
            gguf_architectures=Known(None, (sources.seen(LOADER, "its own loader"),)),
        )


_REMOTE = Fallback(
    classes=("AutoModelForCausalLM",),
    accepts=(),
    remote_code=True,
    multimodal=True,
    suffixes={},
    refuses_dropped=False,
    at=Site(f"{AUTO}auto_factory.py", 1),
)
"""What is not listed runs only from the repository's own code, and not through ``transformers serve``."""


def itself(sources: Sources, identity: Identity, given: Transformers) -> Transformers:
    """The library beside the engine is the engine: its own version, and what its own files offer.

    A release is told by the table of all releases; a source tree, or a release that the table does not
    have, by its own files.
    """
    version = identity.version
    if isinstance(given.installed, Known) and given.installed.value is not None:
        return given  # an environment: whoever found it has looked at the files already
    if isinstance(version, Missing):
        return Transformers(version, version, given.table)
    stated: Fact[str | None] = Known(f"=={version.value}", version.evidence)
    installed: Fact[str | None] = Known(version.value, version.evidence)
    shipped = given.table
    released = isinstance(identity.content, Known) and isinstance(shipped, Known)
    if released and isinstance(shipped, Known) and version.value in shipped.value.versions:
        return Transformers(installed, stated, shipped)
    own = read_table(sources, version.value)
    if isinstance(own, Known) and isinstance(shipped, Known):
        own = Known(merge([own.value, shipped.value]), own.evidence + shipped.evidence)
    return Transformers(installed, stated, own)


def _classes(reading: Reading, rows: Fact[Mapping[str, Registered]]) -> Mapping[str, Fact[ModelClass | None]]:
    if not isinstance(rows, Known):
        return {}
    listed, wanted = rows.value, reading.want.architectures
    names = list(listed) if wanted is None else [name for name in sorted(wanted) if name in listed]
    reading.sources.prefetch(p for name in names for p in registry.candidates(reading, listed[name])[:1])

    def one(row: Registered) -> Fact[ModelClass | None]:
        return attempt(lambda r: registry.read_class(r, row), reading)

    return {name: one(listed[name]) for name in names}


def _load_formats(reading: Reading) -> Fact[tuple[str, ...]]:
    """Weight files that ``from_pretrained`` finds, and GGUF files where there is a loader for them."""
    found: list[str] = []
    for path in WEIGHTS:
        text = reading.text(path) if reading.has(path) and not found else ""
        words = (("safetensors", "model.safetensors"), ("pt", "pytorch_model.bin"))
        found += [form for form, word in words if word in text]
    if not found:
        raise reading.unknown(WEIGHTS[0], "no names of weight files")
    if reading.has(LOADER):
        found.append("gguf")
    return Known(tuple(found), (reading.sources.seen(WEIGHTS[0], f"loads {', '.join(found)}"),))


def _nothing(sources: Sources, value: T, saw: str) -> Known[T]:
    """A fact of which every release says the same."""
    return Known(value, (sources.seen(AUTO, saw),))


def _unstated(sources: Sources, why: str) -> Missing:
    return Missing(Cause.UNAVAILABLE, why, (sources.seen(AUTO, why),), "start it once")
