"""What vLLM keeps of a layer whose cache is compressed along the sequence (DeepSeek V4).

Source: vLLM 0.20.0 to 0.33.0, v1/attention/backends/mla/sparse_swa.py, DeepSeek V4's attention and compressor
(model_executor/layers, from 0.23.0 models/deepseek_v4) and ``get_kv_cache_spec`` of each.
"""

from __future__ import annotations

from collections.abc import Iterator

from canserve.memory.cache.rows import index_row
from canserve.memory.cache.spec import Growth, Spec, parts
from canserve.memory.layers.kinds import Compressed
from canserve.memory.unserved import Unserved

BLOCK = 256
"""Tokens of a block of the compressed cache."""
WINDOW_BLOCK = 64
ALIGNMENT = 576
"""Bytes that a page is a multiple of; FlashMLA asks for it."""
STATE_BLOCK = {4: 4, 128: 8}
"""Tokens of a block of the compressor's state, by ratio: chosen so that its page is about one of the cache."""
OVERLAPPING = 4
"""The ratio at which two neighbouring windows overlap, so that the state is twice as wide and as long."""


def compressed_specs(layer: Compressed) -> Iterator[Spec]:
    """Window, compressed rows and compressor state, and the same of the indexer, in fp8. Raises Unserved."""
    row = layer.head_dim - layer.rope_dim + 2 * layer.rope_dim + 8
    yield Spec(Growth.WINDOW, WINDOW_BLOCK, _page(WINDOW_BLOCK * row), layer.window)
    if not layer.ratio:
        return
    if layer.ratio not in STATE_BLOCK:
        raise Unserved(f"does not serve a cache compressed {layer.ratio} times")
    yield Spec(Growth.FULL, BLOCK, _page(BLOCK // layer.ratio * row))
    yield _state(layer.ratio, layer.head_dim)
    if layer.index_dim:
        yield Spec(Growth.FULL, BLOCK, _page(BLOCK // layer.ratio * index_row(layer.index_dim)))
        yield _state(layer.ratio, layer.index_dim)


def _state(ratio: int, dim: int) -> Spec:
    """Values and scores in float32 of the tokens that are yet to be compressed."""
    times = 2 if ratio == OVERLAPPING else 1
    block = STATE_BLOCK[ratio]
    return Spec(Growth.WINDOW, block, _page(block * 2 * times * dim * 4), times * ratio)


def _page(size: int) -> int:
    return ALIGNMENT * parts(size, ALIGNMENT)
