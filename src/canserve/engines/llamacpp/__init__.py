"""llama.cpp: how its sources are read, from a checkout or as the llama-cpp-python releases carry them.

It serves GGUF files only. ``architectures`` says which, ``formats`` what may stand in them; ``converter`` which
checkpoints of the Hub the converter beside it turns into one; ``serving`` and ``flags`` what its server can be
told. Wheels hold libraries without sources: only the package's version can be known of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from canserve.engines import Checkout
from canserve.engines.llamacpp import architectures, converter, formats
from canserve.engines.llamacpp.reading import CARRIED, MARKS, PACKAGE, Reading, attempt
from canserve.engines.sources import Sources
from canserve.engines.static.collection import no_collection
from canserve.facts import Fact
from canserve.subjects.build import (
    Build,
    Identity,
    Registered,
    Site,
    Transformers,
    Want,
)


class LlamaCpp:
    """Reads any llama.cpp from its own sources."""

    name = "llama.cpp"
    distribution = "llama-cpp-python"
    package = PACKAGE
    checkout: Checkout | None = Checkout(MARKS, CARRIED)

    def first_files(self, sources: Sources, want: Want) -> Sequence[str]:
        """The files that a reading needs: few, whatever is wanted."""
        del want
        reading = Reading(sources)
        if reading.root is None:
            return []
        places = (*architectures.NAMED_IN, *architectures.BUILT_IN, *formats.VOCABULARIES, *formats.TYPES,
                  *formats.PROJECTORS)  # fmt: skip
        paths = [reading.root + name for name in places] + converter.converter_files(reading)
        return [path for path in dict.fromkeys(paths) if sources.has(path)]

    def requirement(self, requires: Sequence[str], name: str) -> str | None:
        """None: nothing that serves is Python; the package's requirements are those of its bindings."""
        del requires, name
        return None

    def read(self, sources: Sources, identity: Identity, transformers: Transformers, want: Want) -> Build:
        """Read the build; what cannot be read is Missing."""
        del want
        with no_collection():
            return self._read(Reading(sources), identity, transformers)

    def _read(self, reading: Reading, identity: Identity, transformers: Transformers) -> Build:
        return Build(
            identity=identity,
            transformers=transformers,
            registry=attempt(_no_classes, reading),
            quantization=attempt(formats.read_quantization, reading),
            gguf_architectures=attempt(architectures.read_gguf_architectures, reading),
            gguf_types=attempt(formats.read_gguf_types, reading),
            gguf_vocabularies=attempt(formats.read_vocabularies, reading),
            gguf_projectors=attempt(formats.read_projectors, reading),
            converter=attempt(converter.read_converter, reading),
        )


def _no_classes(reading: Reading) -> Fact[Mapping[str, Registered]]:
    """No class of the Hub is served as it is; the converter's are another matter."""
    nothing: Mapping[str, Registered] = {}
    return reading.known(nothing, "serves GGUF files, no classes of the Hub", Site(reading.path(""), 0))
