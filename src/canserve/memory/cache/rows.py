"""Bytes of one token in the KV cache, of one layer on one rank, by the cache's dtype."""

from __future__ import annotations

import math
from dataclasses import dataclass

from canserve.memory.layers.kinds import Attention, Latent

ELEMENT = {
    "float32": 4, "float": 4, "fp32": 4,
    "float16": 2, "half": 2, "fp16": 2, "bfloat16": 2, "bf16": 2,
    "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1, "fp8_inc": 1, "int8": 1,
}  # fmt: skip
"""Bytes of one element of the plain dtypes."""

DS_MLA = 656
"""Bytes a token of ``fp8_ds_mla``: 512 of fp8, 4 scales of float32, 64 bfloat16 of the rotary part."""


@dataclass(frozen=True, slots=True)
class Storage:
    """How one vector is stored: ``ceil(dim * bits / 8) + extra`` bytes."""

    bits: float
    """Of an element, its share of block scales included."""
    extra: int = 0
    """Bytes of scales of the whole vector."""

    def bytes(self, dim: int) -> int:
        """Of one head of one token."""
        return math.ceil(dim * self.bits / 8) + self.extra


@dataclass(frozen=True, slots=True)
class CacheDtype:
    """How keys and values are stored."""

    name: str
    key: Storage
    value: Storage
    even: bool = False
    """Key and value of a head take an even number of bytes together."""
    edges: int = 0
    """Layers at either end that stay unquantized, in models without recurrent state."""

    def head(self, k: int, v: int) -> int:
        """Bytes of one head of one token, key and value."""
        size = self.key.bytes(k) + self.value.bytes(v)
        return size + (size % 2 if self.even else 0)


def cache_dtype(name: str) -> CacheDtype | None:
    """The storage a name stands for; None: not known here."""
    if name in ELEMENT:
        plain = Storage(8 * ELEMENT[name])
        return CacheDtype(name, plain, plain)
    return PACKED.get(name)


NVFP4_LATENT = "nvfp4_ds_mla"
"""Latent attention's own nvfp4, whose rotary part is fp8: 352 bytes of rank 512 (vLLM 0.30.0, mla_attention.py)."""


def _packed(name: str, bits: float, extra: int) -> CacheDtype:
    return CacheDtype(name, Storage(bits, extra), Storage(bits, extra))


def _turbo(name: str, key: Storage, value_bits: float) -> CacheDtype:
    return CacheDtype(name, key, Storage(value_bits, 4), even=True, edges=2)


PACKED: dict[str, CacheDtype] = {
    each.name: each
    for each in (
        _packed("int4_per_token_head", 4, 4),
        _packed("int8_per_token_head", 8, 4),
        _packed("fp8_per_token_head", 8, 4),
        _packed("nvfp4", 4.5, 0),
        _packed("nvfp4_4over6", 4.5, 0),
        _packed("fp4_e2m1", 4.5, 0),
        _packed(NVFP4_LATENT, 4.5, 0),
        _turbo("turboquant_k8v4", Storage(8), 4),
        _turbo("turboquant_4bit_nc", Storage(4, 2), 4),
        _turbo("turboquant_k3v4_nc", Storage(3, 2), 4),
        _turbo("turboquant_3bit_nc", Storage(3, 2), 3),
    )
}
"""Packed dtypes: a float32 scale a head; nvfp4 one scale byte for 16 elements; turboquant a float16 norm a key, two
float16 a value. Source: vLLM 0.33.0, v1/attention/backends/{triton_attn,flashinfer}.py, ``customize_spec``, and
model_executor/layers/quantization/turboquant/config.py."""


def kv_heads(total: int, ranks: int) -> int:
    """Heads on one of the tensor parallel ranks: cut evenly, whole heads repeated once there are too few."""
    return max(1, total // ranks)


def attention_row(layer: Attention, ranks: int, dtype: CacheDtype) -> int:
    """Keys and values of one token: ``kv_heads * (k + v)``."""
    return kv_heads(layer.kv_heads, ranks) * dtype.head(layer.head_dim, layer.v_head_dim)


def latent_row(layer: Latent, dtype: CacheDtype) -> int:
    """One row of rank and rotary part, the same on every tensor parallel rank."""
    if dtype.name == NVFP4_LATENT:
        return dtype.key.bytes(layer.kv_rank) + layer.rope_dim
    return dtype.key.bytes(layer.kv_rank + layer.rope_dim)


def index_row(dim: int) -> int:
    """The indexer's key: fp8 with one float32 scale for 128 elements."""
    return dim + 4 * -(-dim // 128)
