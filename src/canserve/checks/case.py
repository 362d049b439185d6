"""A case: the subjects that checks judge together, and what the user wishes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from packaging.version import Version

from canserve.facts import Evidence
from canserve.subjects.build import Build
from canserve.subjects.machine import Machine
from canserve.subjects.model import Model


class History(Protocol):
    """Which releases list an architecture; the shipped index, or nothing."""

    def releases_with(self, engine: str, architecture: str) -> tuple[str, ...]:
        """Release versions that list the architecture natively, oldest first."""
        ...

    def names(self, engine: str) -> frozenset[str]:
        """Every architecture any release of the engine ever listed."""
        ...

    def neighbour_count(self, engine: str, version: Version | None) -> int | None:
        """How many architectures the nearest release up to this version registers; None: not known."""
        ...

    def first_parsing(self, engine: str, model_type: str) -> str | None:
        """The first release that parses the model type, by its own shim or every transformers it allows."""
        ...

    def first_listing(self, engine: str, table: str, name: str) -> str | None:
        """The first release with the name in its table: ``tool_parsers``, ``quantization``, ``flags`` ..."""
        ...

    def evidence(self, engine: str) -> Evidence:
        """Where this comes from and of which date."""
        ...


@dataclass(frozen=True, slots=True)
class NoHistory:
    """An index that knows nothing; used where none was loaded."""

    def releases_with(self, engine: str, architecture: str) -> tuple[str, ...]:
        """Nothing."""
        del engine, architecture
        return ()

    def names(self, engine: str) -> frozenset[str]:
        """Nothing."""
        del engine
        return frozenset()

    def neighbour_count(self, engine: str, version: Version | None) -> int | None:
        """Nothing."""
        del engine, version
        return None

    def first_parsing(self, engine: str, model_type: str) -> str | None:
        """Nothing."""
        del engine, model_type
        return None

    def first_listing(self, engine: str, table: str, name: str) -> str | None:
        """Nothing."""
        del engine, table, name
        return None

    def evidence(self, engine: str) -> Evidence:
        """A look that found nothing."""
        return Evidence(engine, "release index", "not loaded", whole=False)


@dataclass(frozen=True, slots=True)
class Wish:
    """What the user asks of the engine, from the flags after ``--``. None: the engine's default."""

    flags: Mapping[str, str | None] = field(default_factory=dict)
    """Flag -> value as given; None: no value."""
    trust_remote_code: bool = False
    quantization: str | None = None
    kv_cache_dtype: str | None = None
    reasoning_parser: str | None = None
    tool_parser: str | None = None
    speculative: str | None = None
    """Speculative method or draft architecture: ``mtp``, ``eagle3``, ``EagleLlamaForCausalLM``."""
    pipeline_parallel: int = 1
    model_impl: str | None = None
    load_format: str | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """One model, one build, perhaps one machine."""

    model: Model
    build: Build
    machine: Machine | None = None
    wish: Wish = field(default_factory=Wish)
    history: History = field(default_factory=NoHistory)

    def about(self, with_machine: bool) -> str:
        """``MODEL on BUILD`` or ``BUILD on MACHINE``, for findings."""
        if with_machine and self.machine is not None:
            return f"{self.build.identity.subject} on {self.machine.subject}"
        return f"{self.model.subject} with {self.build.identity.subject}"
