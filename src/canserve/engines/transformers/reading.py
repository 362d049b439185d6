"""One release, installation or source tree of transformers, read from its own files on demand."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from canserve.engines.sources import Sources
from canserve.engines.static.evaluate import Constants
from canserve.engines.transformers import gguf, mappings
from canserve.engines.transformers.backend import BackendTests
from canserve.engines.transformers.names import PACKAGE, Names
from canserve.engines.transformers.outline import Outline, Outlines
from canserve.facts import Fact


class Library:
    """What the files say. Whoever reads many releases passes one ``memory`` for all of them."""

    def __init__(self, sources: Sources, memory: dict[bytes, Outline] | None = None) -> None:
        self.sources = sources
        self._constants = Constants(sources, PACKAGE)
        self._outlines = Outlines(sources, memory)
        self.names = Names(self._constants, self._outlines)
        """Which names can be imported."""

    @cached_property
    def config_types(self) -> Fact[Mapping[str, str]]:
        """Model types that ``AutoConfig`` maps -> their config class."""
        return mappings.config_types(self._constants)

    @cached_property
    def architectures(self) -> Fact[mappings.Architectures]:
        """Model classes and the types that are mapped to them."""
        return mappings.architectures(self._constants)

    @cached_property
    def gguf_architectures(self) -> Fact[frozenset[str]]:
        """Values of ``general.architecture`` that the GGUF loader accepts."""
        return gguf.gguf_architectures(self._constants)

    @cached_property
    def _tests(self) -> BackendTests:
        return BackendTests(self.sources, self._outlines)

    def backend_tests(self, architecture: str) -> frozenset[str] | None:
        """Tests of the engines' Transformers back end that ``transformers.<architecture>`` passes.

        None: there is no such model class, or none that could be read.
        """
        return self._tests.passed(architecture) if self.names.has(PACKAGE, architecture) else None
