"""LMDeploy: how its releases are read.

Two engines in one package: TurboMind (C++, with converters in Python) and PyTorch. ``registry`` finds what
each serves, ``classes`` resolves it, ``configs`` says how config.json is parsed, ``quantization`` which weights
each back end takes; ``flags`` and ``serving`` what a server can be told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from canserve.engines.lmdeploy import registry as registries
from canserve.engines.lmdeploy.classes import ClassReader
from canserve.engines.lmdeploy.reading import MODULE_MAP, TOP, TURBOMIND_LIST, Reading, attempt
from canserve.engines.lmdeploy.registry import Registry
from canserve.engines.requirements import requirement
from canserve.engines.sources import Sources
from canserve.engines.static.collection import no_collection
from canserve.facts import Fact, Known, Missing
from canserve.subjects.build import (
    Build,
    Identity,
    ModelClass,
    Registered,
    Transformers,
    Want,
)


class LMDeploy:
    """Reads any LMDeploy build from its own files."""

    name = "lmdeploy"
    distribution = name
    package = TOP
    checkout = None

    def first_files(self, sources: Sources, want: Want) -> Sequence[str]:
        """The files that a reading with this want needs, fetched together up front."""
        del want
        return [path for path in (MODULE_MAP, TURBOMIND_LIST) if sources.has(path)]

    def requirement(self, requires: Sequence[str], name: str) -> str | None:
        """The specifier under which ``pip install lmdeploy`` requires another package."""
        return requirement(requires, name)

    def read(self, sources: Sources, identity: Identity, transformers: Transformers, want: Want) -> Build:
        """Read the build; what cannot be read is Missing."""
        with no_collection():
            return self._read(Reading(sources, want), identity, transformers)

    def _read(self, reading: Reading, identity: Identity, transformers: Transformers) -> Build:
        found = attempt(_registry, reading)
        rows: Fact[Mapping[str, Registered]]
        rows = found if isinstance(found, Missing) else Known(found.value.rows(), found.value.evidence)
        return Build(
            identity=identity,
            transformers=transformers,
            registry=rows,
            classes=_classes(reading, rows),
            dropped=attempt(registries.read_dropped, reading),
        )


def _registry(reading: Reading) -> Fact[Registry]:
    return Known(registries.read_registry(reading))


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
