"""Engine readers: text of a build's files in, facts out. Engine names live here and in ``rules`` only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from canserve.engines.sources import Sources
from canserve.subjects.build import Build, Identity, Transformers, Want


class Engine(Protocol):
    """How to read one serving engine. An engine is one file or folder here and one entry of ``ENGINES``."""

    name: str
    """``vllm``; also the distribution's name on the package index."""
    package: str
    """Import package whose folder marks the engine in a tree."""

    def first_files(self, sources: Sources, want: Want) -> Sequence[str]:
        """The files that a reading with this want certainly needs, fetched together up front."""
        ...

    def read(self, sources: Sources, identity: Identity, transformers: Transformers, want: Want) -> Build:
        """Read the build. Never raises on hostile or unknown input: what cannot be read is Missing."""
        ...

    def requirement(self, requires: Sequence[str], name: str) -> str | None:
        """The specifier under which a usual installation of this engine requires another package.

        ``requires`` are ``Requires-Dist`` lines; ``""``: any version, ``None``: not required. Most engines
        return ``requirements.requirement(requires, name)``; one that keeps its runtime in extras names them.
        """
        ...


def engines() -> tuple[Engine, ...]:
    """All engines, in the order in which they are tried on a tree."""
    from canserve.engines.sglang import SGLang
    from canserve.engines.vllm import VLLM

    return (VLLM(), SGLang())


def engine_named(name: str) -> Engine | None:
    """The engine of that name, if there is one."""
    return next((engine for engine in engines() if engine.name == name), None)
