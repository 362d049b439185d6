"""Tables of transformers releases: one installation read live, and several tables seen as one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from packaging.version import InvalidVersion, Version

from canserve.engines.sources import Sources
from canserve.engines.transformers.mappings import Architectures
from canserve.engines.transformers.names import PACKAGE
from canserve.engines.transformers.reading import Library
from canserve.facts import Evidence, Fact, Known, Missing
from canserve.subjects.build import TransformersTable

TOKENIZER_CLASSES = ("Tokenizer", "TokenizerFast", "TokenizersBackend", "MistralCommonBackend")
"""How the names of all tokenizer classes end that any release maps."""


def read_table(sources: Sources, version: str) -> Fact[TransformersTable]:
    """The table of one installation, from its own files.

    Missing where its mappings are not readable, or where a folder of the package could not be listed.
    """
    if hole := next((h for h in sources.holes if h.covers(PACKAGE) or h.prefix.startswith(PACKAGE)), None):
        return hole.missing
    library = Library(sources)
    types, architectures = library.config_types, library.architectures
    if isinstance(types, Missing):
        return types
    if isinstance(architectures, Missing):
        return architectures
    installed = _Installed(version, library, frozenset(types.value), architectures.value)
    return Known(merge([installed]), types.evidence + architectures.evidence)


def merge(tables: Iterable[TransformersTable]) -> TransformersTable:
    """Several tables as one; of a version that several tell about, the first one's word counts."""
    return _Merged(tables)


def architectures_of(model_type: str, found: Architectures) -> tuple[str, ...]:
    """Classes mapped to a type: the plain ones first, then those that generate text, then the others."""
    plain = sorted(found.plain.get(model_type, ()))
    others = (name for name, types in found.types.items() if model_type in types and name not in plain)
    return (*plain, *sorted(others, key=lambda name: (name not in found.generative, name)))


def tokenizer_classes(names: Iterable[str]) -> frozenset[str]:
    """Those of a release's public names that are tokenizer classes."""
    return frozenset(name for name in names if name.endswith(TOKENIZER_CLASSES))


class _Installed:
    """One version, read from its own files when something is asked of it."""

    def __init__(
        self, version: str, library: Library, types: frozenset[str], architectures: Architectures
    ) -> None:
        self.versions: Sequence[str] = (version,)
        self._library = library
        self._types = types
        self._architectures = architectures

    def yanked(self, version: str) -> bool:
        del version
        return False

    def config_types(self, version: str) -> frozenset[str]:
        del version
        return self._types

    def has_name(self, version: str, module: str, name: str | None) -> bool | None:
        del version
        return self._library.names.has(module, name)

    def backend_tests(self, version: str, architecture: str) -> frozenset[str] | None:
        del version
        return self._library.backend_tests(architecture)

    def architectures_of(self, version: str, model_type: str) -> tuple[str, ...]:
        del version
        return architectures_of(model_type, self._architectures)

    def tokenizer_classes(self, version: str) -> frozenset[str] | None:
        del version
        offer = self._library.names.public()
        return tokenizer_classes(offer.names) if offer.whole else None

    def gguf_architectures(self, version: str) -> frozenset[str]:
        del version
        found = self._library.gguf_architectures
        return found.value if isinstance(found, Known) else frozenset()

    def evidence(self, version: str) -> Evidence:
        saw = f"{PACKAGE} {version}: {len(self._types)} model types"
        return self._library.sources.seen(f"{PACKAGE}/models/auto/", saw)


class _Merged:
    def __init__(self, tables: Iterable[TransformersTable]) -> None:
        self._by_version: dict[str, TransformersTable] = {}
        for table in tables:
            for version in table.versions:
                self._by_version.setdefault(version, table)
        self.versions: Sequence[str] = sorted(self._by_version, key=_order)

    def yanked(self, version: str) -> bool:
        table = self._by_version.get(version)
        return table is not None and table.yanked(version)

    def config_types(self, version: str) -> frozenset[str]:
        table = self._by_version.get(version)
        return table.config_types(version) if table else frozenset()

    def has_name(self, version: str, module: str, name: str | None) -> bool | None:
        table = self._by_version.get(version)
        return table.has_name(version, module, name) if table else None

    def backend_tests(self, version: str, architecture: str) -> frozenset[str] | None:
        table = self._by_version.get(version)
        return table.backend_tests(version, architecture) if table else None

    def architectures_of(self, version: str, model_type: str) -> tuple[str, ...]:
        table = self._by_version.get(version)
        return table.architectures_of(version, model_type) if table else ()

    def tokenizer_classes(self, version: str) -> frozenset[str] | None:
        table = self._by_version.get(version)
        return table.tokenizer_classes(version) if table else None

    def gguf_architectures(self, version: str) -> frozenset[str]:
        table = self._by_version.get(version)
        return table.gguf_architectures(version) if table else frozenset()

    def evidence(self, version: str) -> Evidence:
        return self._by_version[version].evidence(version)


def _order(version: str) -> tuple[Version, str]:
    try:
        return Version(version), version
    except InvalidVersion:
        return Version("0"), version
