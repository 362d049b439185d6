"""llama.cpp: how its sources are read, from a checkout or as the llama-cpp-python releases carry them.

It serves GGUF files only. ``architectures`` says which, ``formats`` what may stand in them; ``converter`` which
checkpoints of the Hub the converter beside it turns into one; ``serving`` and ``flags`` what its server can be
told. Wheels hold libraries without sources: only the package's version can be known of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from canserve.engines import Checkout
from canserve.engines.habits import Habitual
from canserve.engines.llamacpp import architectures, converter, flags, formats, serving
from canserve.engines.llamacpp.reading import CARRIED, MARKS, PACKAGE, Reading, attempt
from canserve.engines.sources import Sources
from canserve.engines.static.collection import no_collection
from canserve.facts import Fact, Known, derive
from canserve.subjects.build import (
    NOT_ASKED,
    Build,
    Fallback,
    Identity,
    Registered,
    Site,
    Transformers,
    Want,
)

if TYPE_CHECKING:
    from canserve.memory.quantity import Quantity
    from canserve.memory.request import Request, Serving


class LlamaCpp(Habitual):
    """Reads any llama.cpp from its own sources."""

    name = "llama.cpp"
    distribution = "llama-cpp-python"
    package = PACKAGE
    checkout = Checkout(MARKS, CARRIED)

    def first_files(self, sources: Sources, want: Want) -> Sequence[str]:
        """The files that a reading needs: few, whatever is wanted."""
        reading = Reading(sources)
        if reading.root is None:
            return []
        places: list[str] = [
            *architectures.FILES,
            *formats.FILES,
            *serving.FILES,
            *(flags.FILES if want.flags else ()),
        ]
        paths = [reading.root + name for name in places]
        if _of_checkpoints(want):
            paths += converter.converter_files(reading)
        return [path for path in dict.fromkeys(paths) if sources.has(path)]

    def requirement(self, requires: Sequence[str], name: str) -> str | None:
        """None: nothing that serves is Python; the package's requirements are those of its bindings."""
        del requires, name
        return None

    def memory(self, request: Request, weights: Sequence[Quantity]) -> Fact[Serving]:
        """What this release can hold of a model."""
        from canserve.engines.llamacpp.memory import holds

        return holds(request, weights)

    def read(self, sources: Sources, identity: Identity, transformers: Transformers, want: Want) -> Build:
        """Read the build; what cannot be read is Missing."""
        with no_collection():
            version = identity.version.value if isinstance(identity.version, Known) else "X"
            return self._read(Reading(sources, version), identity, transformers, want)

    def _read(self, reading: Reading, identity: Identity, transformers: Transformers, want: Want) -> Build:
        return Build(
            identity=identity,
            transformers=transformers,
            registry=attempt(_no_classes, reading),
            dropped=attempt(_none_named, reading),
            elsewhere=attempt(_none_named, reading),
            fallback=attempt(_no_fallback, reading),
            quantization=attempt(formats.read_quantization, reading),
            vendor_quantization=attempt(serving.read_vendors, reading),
            kv_cache_dtypes=attempt(serving.read_cache_types, reading),
            reasoning_parsers=attempt(serving.read_reasoning, reading),
            speculative=attempt(serving.read_speculative, reading),
            flags=attempt(flags.read_flags, reading) if want.flags else NOT_ASKED,
            flag_syntax=attempt(flags.read_flag_syntax, reading) if want.flags else NOT_ASKED,
            launchers=attempt(serving.read_launchers, reading),
            rpc_worker=attempt(serving.read_rpc_worker, reading) if want.flags else NOT_ASKED,
            load_formats=attempt(serving.read_load_formats, reading),
            gguf_architectures=attempt(architectures.read_gguf_architectures, reading),
            gguf_types=attempt(formats.read_gguf_types, reading),
            gguf_vocabularies=attempt(formats.read_vocabularies, reading),
            gguf_projectors=attempt(formats.read_projectors, reading),
            converter=attempt(converter.read_converter, reading) if _of_checkpoints(want) else NOT_ASKED,
        )


def _of_checkpoints(want: Want) -> bool:
    """Whether classes of the Hub are asked about, which only the converter knows."""
    return want.architectures != frozenset()


def _no_classes(reading: Reading) -> Fact[Mapping[str, Registered]]:
    """No class of the Hub is served as it is; the converter's are another matter."""
    nothing: Mapping[str, Registered] = {}
    return reading.known(nothing, "serves GGUF files, no classes of the Hub", Site(reading.path(""), 0))


def _none_named(reading: Reading) -> Fact[Mapping[str, str]]:
    """No release names what it dropped, or what a plugin serves."""
    return derive(_no_classes(reading), lambda _: {})


def _no_fallback(reading: Reading) -> Fact[Fallback | None]:
    """An architecture that is not built in is not served."""
    return derive(_no_classes(reading), lambda _: None)
