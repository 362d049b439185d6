"""A tensor of a checkpoint: what headers say, or what a config implies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

BITS: Mapping[str, int] = {
    "BOOL": 8, "U8": 8, "I8": 8, "U16": 16, "I16": 16, "F16": 16, "BF16": 16, "U32": 32, "I32": 32, "F32": 32,
    "U64": 64, "I64": 64, "F64": 64, "C64": 64, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
}  # fmt: skip
"""Bits of one element of each dtype that safetensors headers know."""

BLOCKS: Mapping[str, tuple[int, int]] = {
    "Q4_0": (32, 18), "Q4_1": (32, 20), "Q5_0": (32, 22), "Q5_1": (32, 24), "Q8_0": (32, 34),
    "Q8_1": (32, 40), "Q2_K": (256, 84), "Q3_K": (256, 110), "Q4_K": (256, 144), "Q5_K": (256, 176),
    "Q6_K": (256, 210), "Q8_K": (256, 292), "IQ2_XXS": (256, 66), "IQ2_XS": (256, 74), "IQ3_XXS": (256, 98),
    "IQ1_S": (256, 50), "IQ4_NL": (32, 18), "IQ3_S": (256, 110), "IQ2_S": (256, 82), "IQ4_XS": (256, 136),
    "IQ1_M": (256, 56), "TQ1_0": (256, 54), "TQ2_0": (256, 66), "MXFP4": (32, 17), "NVFP4": (64, 36),
    "Q1_0": (128, 18),
    "Q2_0": (64, 18),
}  # fmt: skip
"""Elements and bytes of one block of GGUF's own types (``GGML_QUANT_SIZES`` of llama.cpp's gguf-py)."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A stored tensor, or several that differ only in the number of an expert."""

    name: str
    """As in the checkpoint: ``model.layers.3.self_attn.q_proj.weight``. With ``copies`` above one the expert's
    number is a star: ``model.layers.3.mlp.experts.*.up_proj.weight``."""
    shape: tuple[int, ...]
    """Of one copy, outermost first (for GGUF: the reverse of what the file lists)."""
    dtype: str
    """Of ``BITS`` or ``BLOCKS``."""
    copies: int = 1

    @property
    def elements(self) -> int:
        """Of all copies."""
        return prod(self.shape) * self.copies

    @property
    def bytes(self) -> int:
        """Of all copies."""
        return size(self.shape, self.dtype) * self.copies


def size(shape: tuple[int, ...], dtype: str) -> int:
    """Bytes of a tensor. Raises KeyError for an unknown dtype."""
    elements = prod(shape)
    if dtype in BITS:
        return elements * BITS[dtype] // 8
    block, block_bytes = BLOCKS[dtype]
    return elements // block * block_bytes
