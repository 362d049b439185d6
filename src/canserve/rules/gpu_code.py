"""Which compiled GPU code runs where: NVIDIA's and AMD's rules, with what ``gpu_code.toml`` adds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeAlias

from canserve.rules.table import Row, load
from canserve.units import Capability

FILE = "gpu_code.toml"

Runs: TypeAlias = Literal["machine code", "ptx", "no", "unknown"]
"""How a target's code runs on a GPU; ``ptx``: the driver compiles it at start."""


def on_nvidia(target: str, capability: Capability) -> Runs:
    """Whether code for a target runs on GPUs of a compute capability.

    >>> [on_nvidia(t, Capability(12, 1)) for t in ("sm_120", "sm_120a", "sm_120f", "compute_90", "compute_90a")]
    ['machine code', 'no', 'machine code', 'ptx', 'no']
    """
    found = re.fullmatch(r"(sm|compute)_(\d{2,3})([af]?)", target)
    if found is None:
        return "unknown" if target.startswith("kind") else "no"
    made_for, kind = Capability.of(int(found[2])), found[3]
    if kind == "f":
        row = _family(f"{made_for}f")
        if row is None:
            return "unknown" if made_for.major == capability.major else "no"
        fits = str(capability) in row.texts("capabilities")
    elif made_for == capability:
        fits = True
    elif kind == "a":
        fits = False
    elif found[1] == "compute":
        fits = made_for < capability
    else:
        fits = made_for.major == capability.major and made_for < capability
        fits = fits and not {str(made_for), str(capability)} & _alone()
    return "no" if not fits else "ptx" if found[1] == "compute" else "machine code"


def on_amd(target: str, processor: str) -> Runs:
    """Whether code for a target runs on AMD's GPUs of a processor name.

    >>> on_amd("gfx942", "gfx942"), on_amd("gfx90a:xnack-", "gfx90a"), on_amd("gfx9-4-generic", "gfx942")
    ('machine code', 'machine code', 'machine code')
    """
    made_for = target.partition(":")[0]
    if not made_for.startswith("gfx"):
        return "unknown" if made_for.startswith("amdgcn") else "no"
    if made_for == processor.partition(":")[0]:
        return "machine code"
    if not made_for.endswith("-generic"):
        return "no"
    row = next((row for row in load(FILE).rows("generic") if row.values["target"] == made_for), None)
    if row is None:
        return "unknown"
    return "machine code" if processor.partition(":")[0] in row.texts("processors") else "no"


def is_near(target: str, capability: Capability) -> bool:
    """Whether machine code is for another GPU of the same major capability and one architecture or family only."""
    found = re.fullmatch(r"sm_(\d{2,3})[af]", target)
    return found is not None and Capability.of(int(found[1])).major == capability.major


def is_specific(target: str) -> bool:
    """Whether code is made for one architecture or family, by design: ``sm_90a``, ``sm_100f``."""
    return re.fullmatch(r"(sm|compute)_\d{2,3}[af]", target) is not None


@dataclass(frozen=True, slots=True)
class Package:
    """An import package that engines load extensions of."""

    name: str
    modules: tuple[str, ...]
    """Beginnings of the names of its extension modules that lie beside it."""
    essential: bool
    """Whether nothing runs without its code."""
    engines: frozenset[str] = frozenset()
    """Those that load it; empty: all do."""

    def serves(self, engine: str) -> bool:
        """Whether an engine loads it."""
        return not self.engines or engine in self.engines


@cache
def packages() -> Mapping[str, Package]:
    """By name."""
    rows = load(FILE).rows("package")
    return {row.text("name"): _package(row) for row in rows}


def _package(row: Row) -> Package:
    essential, engines = row.values.get("essential") is True, frozenset(row.texts("engines"))
    return Package(row.text("name"), row.texts("modules"), essential, engines)


def cuda_library(file_name: str) -> tuple[str, str] | None:
    """The library and its version that a file name stands for, of those that a CUDA toolkit brings.

    >>> cuda_library("libcudart.so.12"), cuda_library("libcudart-9335f6a2.so.12"), cuda_library("libcuda.so.1")
    (('libcudart', '12'), ('libcudart', '12'), None)
    """
    found = re.fullmatch(r"(lib[A-Za-z_]+\d*[A-Za-z_]*)(?:[-.][0-9a-f]{8})?\.so\.([\d.]{1,20})", file_name)
    if found is None or found[1] not in _libraries():
        return None
    return found[1], found[2]


def runtime_packages(major: str) -> tuple[Row, ...]:
    """Rows of the packages that bring the runtime of a major release of CUDA."""
    return tuple(row for row in load(FILE).rows("runtime") if row.text("major") == major)


@cache
def _libraries() -> frozenset[str]:
    return frozenset(name for row in load(FILE).rows("library") for name in row.texts("names"))


@cache
def _alone() -> frozenset[str]:
    return frozenset(text for row in load(FILE).rows("alone") for text in row.texts("capabilities"))


@cache
def _family(target: str) -> Row | None:
    return next((row for row in load(FILE).rows("family") if row.values["target"] == target), None)
