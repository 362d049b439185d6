"""Kernels for fused experts, by the names that a build's flag takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from canserve.subjects.site import Site


@dataclass(frozen=True, slots=True)
class MoeBackend:
    """A name of kernels for fused experts, as one oracle of the build takes it."""

    name: str
    """Empty: nothing is known of the names that it takes."""
    oracle: str
    """What chooses the kernels: one for each kind of quantized experts."""
    methods: frozenset[str]
    """Quantization methods that ask this oracle; the empty name: without quantization."""
    classes: tuple[str, ...]
    runs: Mapping[int, bool | None]
    """Compute capability (times ten) -> whether a kernel says that it runs there; None: it asks for more."""
    at: Site
