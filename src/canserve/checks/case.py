"""A case: the subjects that checks judge together, and what the user wishes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from packaging.version import Version

from canserve.facts import Cause, Evidence, Fact, Known, Missing
from canserve.subjects.build import Build
from canserve.subjects.model import Model

if TYPE_CHECKING:
    from canserve.layout.judged import Judged
    from canserve.memory.request import Serving
    from canserve.subjects.launch import Start
    from canserve.subjects.machine import Machine
    from canserve.subjects.parallel import Device, Parallel, Placement
    from canserve.subjects.recipe import Recipe

NOT_COMPUTED = Missing(
    Cause.UNREACHED, "what its memory holds was not computed", ask="plan it: canserve plan MODEL --on ..."
)


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
    recipe: Recipe | None = None
    """Where the flags come from; None: from the user."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """One way to spread the model over machines, and what the engine's memory rules say of it."""

    layouts: Judged
    """The machines, and the constraints applied to them."""
    parallel: Parallel
    placement: Placement | None = None
    """None: the degrees are not legal, or the machines have no room."""
    devices: tuple[Device, ...] = ()
    """One a rank of the placement; empty: not known."""
    serving: Fact[Serving] = NOT_COMPUTED
    sequences: int = 1
    """Sequences of the full context that have to fit at once."""
    start: Fact[Start] = NOT_COMPUTED
    """Its processes; Missing, unavailable: the build has no way to start this layout."""

    def __str__(self) -> str:
        degrees = self.parallel
        words = [f"TP{degrees.tp}"]
        words += [f"PP{degrees.pp}"] if degrees.pp > 1 else []
        words += [f"DP{degrees.dp}"] if degrees.dp > 1 else []
        words += [f"EP{degrees.ep}"] if degrees.ep > 1 else []
        hosts = self.layouts.question.hosts
        placed = len({rank.machine for rank in self.placement.ranks}) if self.placement else len(hosts)
        where = hosts[0].name if len(hosts) == 1 else f"{placed} machines"
        return f"{' x '.join(words)} on {where}"


@dataclass(frozen=True, slots=True)
class Case:
    """One model, one build, perhaps one machine, perhaps one layout."""

    model: Model
    build: Build
    machine: Machine | None = None
    wish: Wish = field(default_factory=Wish)
    history: History = field(default_factory=NoHistory)
    deployment: Deployment | None = None
    """None: no layout is judged."""

    @property
    def on_processors(self) -> bool:
        """Whether a build made for processors alone meets a machine without accelerators, as far as both were read.

        A build without any extension proves nothing: what it calls may lie in packages that are not there yet.
        """
        gpus = None if self.machine is None else self.machine.gpus
        files, torch = self.build.gpu_code, self.build.torch
        if not (
            isinstance(gpus, Known)
            and gpus.value == 0
            and isinstance(files, Known)
            and isinstance(torch, Known)
        ):
            return False
        return bool(files.value) and all(
            isinstance(one, Known) and not one.value.units for one in files.value.values()
        )

    def about(self, with_machine: bool, with_layout: bool = False) -> str:
        """``MODEL with BUILD``, ``BUILD on MACHINE`` or ``MODEL with BUILD at TP2 on MACHINE``, for findings."""
        if with_layout and self.deployment is not None:
            return f"{self.model.subject} with {self.build.identity.subject} at {self.deployment}"
        if with_machine and self.machine is not None:
            return f"{self.build.identity.subject} on {self.machine.subject}"
        return f"{self.model.subject} with {self.build.identity.subject}"
