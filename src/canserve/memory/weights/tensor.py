"""A tensor of a checkpoint: what headers say, or what a config implies."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

BITS = {
    "F64": 64, "I64": 64, "U64": 64, "F32": 32, "I32": 32, "U32": 32, "BF16": 16, "F16": 16, "I16": 16,
    "U16": 16, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "I8": 8, "U8": 8, "BOOL": 8, "F6_E3M2": 6,
    "F6_E2M3": 6, "F4": 4,
}  # fmt: skip
"""Bits of one element, by the dtype names of safetensors headers."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """One stored tensor."""

    name: str
    """As in the checkpoint: ``model.layers.3.self_attn.q_proj.weight``."""
    shape: tuple[int, ...]
    dtype: str
    """Of ``BITS``."""

    @property
    def bytes(self) -> int:
        """Its size."""
        return prod(self.shape) * BITS[self.dtype] // 8
