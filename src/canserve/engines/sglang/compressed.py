"""What SGLang keeps of layers whose cache is compressed along the sequence (DeepSeek V4).

Source: sglang 0.5.12, 0.5.15 and 0.5.21, model_executor/pool_configurator.py, ``DSV4PoolConfigurator``, and
mem_cache/deepseek_v4_memory_pool.py, ``get_compress_state_ring_size``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from canserve.memory.cache.rows import index_row
from canserve.memory.cache.spec import parts
from canserve.memory.layers.kinds import Compressed
from canserve.memory.unserved import Unserved

PAGE = 256
"""Tokens of a page, whatever is asked for."""
RUNNING = 256
"""Sequences at once where the user sets no limit."""
WINDOW_RATIO = 0.1
"""Tokens of the window's pool for one of the whole, where the user sets no ratio."""
EVICTED = 128
"""Tokens after which a window's old ones are given back."""
TAILS = 4
"""Ends of prefixes that stay in the window's pool, for each running sequence."""


class Sizing(StrEnum):
    """How the pools beside the compressed one are sized."""

    NONE = "none"
    """Such layers are not served."""
    TOKENS = "tokens"
    """With the tokens of the whole."""
    REQUESTS = "requests"
    """The state of the large ratio with the running sequences."""
    CAPPED = "capped"
    """And the windows too, where the user sets no ratio."""


@dataclass(frozen=True, slots=True)
class Rings:
    """A start, as far as it decides what such a layer keeps."""

    sizing: Sizing
    drafting: bool
    major: int
    """Of the compute capability."""

    def __post_init__(self) -> None:
        if self.sizing is Sizing.NONE:
            raise Unserved("does not serve a cache that is compressed along the sequence")
        if self.sizing is Sizing.CAPPED and self.drafting:
            raise Unserved("the pool of windows of a model that drafts is not known")

    def full(self, layer: Compressed) -> float:
        """Bytes of a token that is kept for good."""
        if not layer.ratio:
            return 0
        index = index_row(layer.index_dim) if layer.index_dim else 0
        return (self._row(layer, PAGE // layer.ratio) + index) / layer.ratio

    def window(self, layer: Compressed) -> float:
        """Bytes of a token of the window's pool, with the compressor's state that grows with it."""
        share = self._ring(layer) / (PAGE if self.sizing is Sizing.CAPPED else layer.window)
        state = share * self._state(layer) if self._with_tokens(layer) else 0
        return self._row(layer, PAGE) + state

    def of_sequence(self, layer: Compressed, running: int) -> int:
        """Bytes of the compressor's state that is kept for the running sequences."""
        if not layer.ratio or self._with_tokens(layer):
            return 0
        rows = (running + 1) * self._ring(layer) + self._ring(layer) + 1
        return layer.ratio * parts(rows, layer.ratio) * self._state(layer)

    def window_tokens(self, running: int, chunk: int, window: int, prefix_cache: bool) -> int:
        """Tokens of the window's pool where it is capped."""
        held = running * (window + EVICTED + 2 * PAGE) + 2 * chunk + PAGE
        tails = TAILS * running * (window + PAGE) if prefix_cache else 0
        return PAGE * parts(held + tails, PAGE)

    def _with_tokens(self, layer: Compressed) -> bool:
        return layer.ratio == 4 or self.sizing is Sizing.TOKENS

    def _ring(self, layer: Compressed) -> int:
        if not layer.ratio:
            return 0
        return {4: 8, 128: 128}[layer.ratio] * (2 if self.drafting else 1)

    def _state(self, layer: Compressed) -> int:
        """Bytes of one place in the ring: values and scores in float32, twice where windows overlap."""
        times = 2 if layer.ratio == 4 else 1
        return 2 * times * (layer.head_dim + layer.index_dim) * 4

    def _row(self, layer: Compressed, rows: int) -> float:
        """Bytes of one row in a page of that many."""
        row = layer.head_dim - layer.rope_dim + 2 * layer.rope_dim + 8
        if self.sizing is not Sizing.CAPPED:
            return row
        if self.major == 10:
            return 512 * parts(rows * (layer.head_dim + 16), 512) / rows
        return 576 * parts(rows * row, 576) / rows
