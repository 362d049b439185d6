"""Compiled GPU code of a build: what its extension modules and libraries hold and link, by their own headers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Unit:
    """Translation units that were compiled for the same targets; the driver picks one target of a unit."""

    targets: tuple[str, ...]
    """``sm_90a`` (machine code), ``compute_80`` (PTX, compiled by the driver), ``gfx942``; sorted."""
    count: int


@dataclass(frozen=True, slots=True)
class Extension:
    """One ELF shared object."""

    package: str
    """The import package it belongs to."""
    cpu: str
    """``x86_64``, ``aarch64``; else ELF's number."""
    units: tuple[Unit, ...] = ()
    """Empty: it holds no GPU code."""
    ptx: Mapping[str, str] = field(default_factory=dict)
    """Version of the PTX language, by target, the newest: ``{"compute_80": "8.4"}``."""
    needed: tuple[str, ...] = ()
    """Shared libraries it links against (``DT_NEEDED``): ``libcudart.so.12``."""
    libc: str | None = None
    """Oldest GNU libc that has every symbol it needs; None: it needs none of it."""
    rpath: tuple[str, ...] = ()
    """Folders in which the loader looks for these libraries before any other (``DT_RPATH``)."""
    runpath: tuple[str, ...] = ()
    """Folders in which it looks after ``LD_LIBRARY_PATH`` (``DT_RUNPATH``); with these, ``rpath`` counts for nothing."""

    @property
    def targets(self) -> tuple[str, ...]:
        """All targets of all units, sorted."""
        return tuple(sorted({target for unit in self.units for target in unit.targets}))


@dataclass(frozen=True, slots=True)
class CudaLibrary:
    """A library of the CUDA toolkit that extensions link against."""

    by: tuple[str, ...]
    """Those extensions."""
    found: str | None
    """Where a file of that very name lies; None: nowhere that was looked."""
    others: tuple[str, ...] = ()
    """Other versions of it that lie there: ``libcudart.so.13``."""
    everywhere: bool = False
    """Whether every file of the build was looked at: what was not found then is not in it."""
