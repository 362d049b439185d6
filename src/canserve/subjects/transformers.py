"""The transformers library that a build runs with: what each release offers, and which one it will be."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from canserve.facts import Cause, Evidence, Fact, Known, Missing


class TransformersTable(Protocol):
    """What each release of transformers offers, by version; shipped with the package or read live."""

    @property
    def versions(self) -> Sequence[str]:
        """All versions it tells about, oldest first, pre-releases included."""
        ...

    def yanked(self, version: str) -> bool:
        """Whether its authors withdrew the version."""
        ...

    def config_types(self, version: str) -> frozenset[str]:
        """Model types that ``AutoConfig`` of that version maps."""
        ...

    def has_name(self, version: str, module: str, name: str | None) -> bool | None:
        """Whether ``from module import name`` works there; None: not recorded."""
        ...

    def backend_tests(self, version: str, architecture: str) -> frozenset[str] | None:
        """Which of ``Fallback.accepts`` the class of that name passes; None: no such class."""
        ...

    def architectures_of(self, version: str, model_type: str) -> tuple[str, ...]:
        """The model classes that transformers maps to this type."""
        ...

    def tokenizer_classes(self, version: str) -> frozenset[str] | None:
        """Tokenizer classes that it offers, former names it still serves included; None: not recorded."""
        ...

    def gguf_architectures(self, version: str) -> frozenset[str]:
        """Values of ``general.architecture`` that its GGUF loader reads."""
        ...

    def evidence(self, version: str) -> Evidence:
        """Where that version's row comes from."""
        ...


@dataclass(frozen=True, slots=True)
class Transformers:
    """The transformers library this build will run with: installed beside it, or what pip would choose."""

    installed: Fact[str | None]
    """Version found beside the engine; ``Known(None)``: looked, none there; Missing: not an environment."""
    requirement: Fact[str | None]
    """The build's own specifier, ``>=4.56.0,<5``; ``Known("")``: any version."""
    table: Fact[TransformersTable]

    def candidates(self) -> Fact[tuple[str, ...]]:
        """Versions that may be there at run time, oldest first.

        The installed one where it is known; else every final release that the requirement allows. Never
        empty: where none is known to fit, nothing can be said.
        """
        if isinstance(self.installed, Known) and self.installed.value is not None:
            return Known((self.installed.value,), self.installed.evidence)
        if isinstance(self.requirement, Missing):
            return self.requirement
        if isinstance(self.table, Missing):
            return self.table
        if self.requirement.value is None:
            return Missing(
                Cause.UNAVAILABLE,
                "the build states no requirement on transformers, and none is installed beside it",
                self.requirement.evidence,
                "name a release with --with transformers==X",
            )
        table = self.table.value
        matching, final = _allowed(self.requirement.value, tuple(table.versions))
        # As pip does: a yanked release or a pre-release only where nothing else fits.
        chosen = [version for version in final if not table.yanked(version)] or final or matching
        evidence = self.requirement.evidence + self.table.evidence
        if not chosen:  # the build may be newer than what was indexed: that proves nothing
            newest = table.versions[-1] if table.versions else "none"
            return Missing(
                Cause.UNREACHED,
                f"no indexed transformers meets {self.requirement.value} (the index goes to {newest})",
                evidence,
                "name a release with --with transformers==X, or update canserve and its index",
            )
        return Known(tuple(chosen), evidence)


@lru_cache(maxsize=1024)
def _allowed(requirement: str, versions: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The versions that meet a requirement, and the final ones of these; neighbours in an index share it."""
    only = _PIN.fullmatch(requirement)
    allowed = SpecifierSet(requirement)
    among = _numbered(versions).get(_parsed(only[1]), ()) if only is not None else versions
    matching = tuple(v for v in among if allowed.contains(_parsed(v) or v, prereleases=True))
    return matching, tuple(v for v in matching if (parsed := _parsed(v)) and not parsed.is_prerelease)


_PIN = re.compile(r"\s*==\s*([\w.!-]+)\s*")
"""A requirement of one version alone, without a local part and without a wildcard."""


@lru_cache(maxsize=16)
def _numbered(versions: tuple[str, ...]) -> Mapping[Version | None, tuple[str, ...]]:
    """Versions by their number without a local part, which a pin without one does not look at."""
    found: dict[Version | None, list[str]] = {}
    for version in versions:
        parsed = _parsed(version)
        found.setdefault(_parsed(parsed.public) if parsed else None, []).append(version)
    return {number: tuple(named) for number, named in found.items()}


@lru_cache(maxsize=4096)
def _parsed(version: str) -> Version | None:
    try:
        return Version(version)
    except InvalidVersion:
        return None
