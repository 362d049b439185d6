"""What vLLM keeps of each layer: its cache specs, block sizes and groups, by release.

Source: vLLM 0.19.0 and 0.25.1, v1/kv_cache_interface.py, v1/core/kv_cache_utils.py, model_executor/models/config.py
(0.10.0 to 0.19.1) and platforms/interface.py (from 0.20.0) for models with recurrent state.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from canserve.engines.vllm.compressed import compressed_specs
from canserve.memory.cache.groups import Grouping, Pages, group
from canserve.memory.cache.packed import Packing, pack
from canserve.memory.cache.rows import (
    DS_MLA,
    CacheDtype,
    attention_row,
    cache_dtype,
    index_row,
    latent_row,
)
from canserve.memory.cache.spec import Growth, Spec, as_full, parts
from canserve.memory.cache.state import StateDtypes, state_bytes
from canserve.memory.fields import Lacking
from canserve.memory.layers.kinds import (
    Attention,
    Compressed,
    Latent,
    Layer,
    Mixer,
    Recurrence,
    Recurrent,
    Span,
)
from canserve.rules.memory import Rules

BLOCK = 16
"""Tokens of a block where neither the user nor the attention backend says otherwise."""
ALIGNMENT = 16
"""Blocks of attention beside recurrent state are a multiple of this; of latent attention, of ``LATENT_ALIGNMENT``."""
LATENT_ALIGNMENT = 64
SPARSE_BLOCK = 64
FACTORS = {"full": 0.0, "least": 0.0, "quarter": 1.25, "half": 1.5}


@dataclass(frozen=True, slots=True)
class CacheSetting:
    """Everything that decides the specs of a model's layers."""

    rules: Rules
    tp: int
    dtype: CacheDtype
    plain: CacheDtype
    """The model's own dtype, in which unquantized layers of a quantized cache stay."""
    states: StateDtypes
    mode: str
    """Of the recurrent state's cache: ``none``, ``align`` or ``all``."""
    checkpoints: frozenset[Recurrence]
    """Kinds of layers that keep one state more, to go on from within a prefill."""
    block: int | None
    """As the user set it."""
    length: int
    """``max_model_len``."""
    drafted: int
    major: int
    """Of the compute capability; 0: not known."""
    grouped: bool
    """False: the hybrid cache manager is off, all layers are kept as full attention."""
    chunk: int
    """Tokens of one chunk of the recurrence's kernel, for mode ``all``."""

    @property
    def latent_block(self) -> int:
        """Of latent attention, by the backend that this capability gets."""
        sizes = self.rules.value("latent_block")
        return int(sizes.get(str(self.major), sizes["default"]))


def grouping(stages: Sequence[Sequence[Layer]], setting: CacheSetting) -> Grouping | None:
    """How the layers of all stages share the pool; None: nothing is kept. Raises Lacking, Unserved."""
    edges = _edges(stages, setting)
    block = _block(stages, setting)
    specs = [[spec for layer in stage for spec in _specs(layer, block, edges, setting)] for stage in stages]
    if any(isinstance(m, Compressed) for stage in stages for layer in stage for m in layer.mixers):
        return pack(specs, Packing(setting.rules.value("packing")))
    if setting.rules.value("chunks") == "full" and any(
        spec.growth is Growth.CHUNK for stage in specs for spec in stage
    ):
        setting = replace(setting, grouped=False)
    whole = setting.rules.value("grouping") == "full" or not setting.grouped
    if whole and any(spec.growth is Growth.FULL for stage in specs for spec in stage):
        specs = [_full(stage) for stage in specs]
    return group(specs, FACTORS[setting.rules.value("grouping")], Pages(setting.rules.value("pages")))


def _full(stage: Sequence[Spec]) -> list[Spec]:
    marker = Spec(Growth.FULL, 1, 1)
    return as_full([*stage, marker])[:-1]


def _edges(stages: Sequence[Sequence[Layer]], setting: CacheSetting) -> frozenset[int]:
    """Layers that stay unquantized: the first and last ones, in models without recurrent state."""
    layers = [layer for stage in stages for layer in stage]
    if not setting.dtype.edges or any(isinstance(m, Recurrent) for layer in layers for m in layer.mixers):
        return frozenset()
    own = [layer.number for layer in layers if layer.mixers]
    return frozenset((*own[: setting.dtype.edges], *own[-setting.dtype.edges :]))


def _specs(layer: Layer, block: int, edges: frozenset[int], setting: CacheSetting) -> Iterator[Spec]:
    if layer.number in edges:
        setting = replace(setting, dtype=setting.plain)
    for mixer in layer.mixers:
        yield from _of_mixer(mixer, block, setting)


def _of_mixer(mixer: Mixer, block: int, setting: CacheSetting) -> Iterator[Spec]:
    match mixer:
        case Attention(shares=None) as own:
            yield _attention(own, block, setting)
            if own.index_dim:
                yield Spec(Growth.FULL, block, block * own.index_dim * 2)
        case Attention():
            return
        case Latent() as latent:
            yield Spec(Growth.FULL, block, block * _latent(latent, setting))
            if latent.index_dim and latent.index_own:
                yield Spec(Growth.FULL, block, block * index_row(latent.index_dim))
        case Recurrent() as state:
            yield _state(state, block, setting)
        case Compressed() as layer:
            yield from compressed_specs(layer)


def _attention(layer: Attention, block: int, setting: CacheSetting) -> Spec:
    page = block * attention_row(layer, setting.tp, setting.dtype)
    match layer.span:
        case Span.FULL:
            return Spec(Growth.FULL, block, page)
        case Span.SLIDING:
            return Spec(Growth.WINDOW, block, page, layer.window or 0)
        case Span.CHUNKED:
            return Spec(Growth.CHUNK, block, page, layer.window or 0)


def _latent(layer: Latent, setting: CacheSetting) -> int:
    """Bytes of one token."""
    if not layer.index_dim:
        return latent_row(layer, setting.dtype)
    name = setting.dtype.name
    if name == setting.plain.name and setting.rules.value("sparse_auto") == "fp8_ds_mla":
        return DS_MLA
    # The kernels of compute capability 9 know fp8 in this form alone.
    return DS_MLA if name.startswith("fp8") and setting.major == 9 else latent_row(layer, setting.dtype)


def _state(layer: Recurrent, block: int, setting: CacheSetting) -> Spec:
    size = state_bytes(layer, setting.tp, setting.states, setting.drafted)
    row = size  # padded to the page of attention where there is attention
    extra = setting.drafted if setting.rules.value("states") == "speculative" else 0
    if setting.mode == "all":
        return Spec(Growth.STATES, block, row, states=extra)
    more = 1 + (layer.kind in setting.checkpoints) if setting.mode == "align" else 0
    held = 1 + more + extra
    return Spec(Growth.STATE, block if setting.mode == "align" else setting.length, row, states=held)


def _block(stages: Sequence[Sequence[Layer]], setting: CacheSetting) -> int:
    """Tokens of a block of attention: long enough, beside recurrent state, that its page holds a state."""
    mixers = [mixer for stage in stages for layer in stage for mixer in layer.mixers]
    latent = any(isinstance(mixer, Latent) for mixer in mixers)
    block = setting.block or (setting.latent_block if latent else BLOCK)
    if any(isinstance(mixer, Latent) and mixer.index_dim for mixer in mixers):
        block = SPARSE_BLOCK
    sizes = [
        state_bytes(mixer, setting.tp, setting.states, setting.drafted)
        for mixer in mixers
        if isinstance(mixer, Recurrent)
    ]
    rows = [_row(mixer, setting) for mixer in mixers if isinstance(mixer, Attention | Latent)]
    if not sizes or not rows:
        return block
    step = max(LATENT_ALIGNMENT if latent else ALIGNMENT, block)
    if setting.mode == "all":
        step = math.lcm(setting.chunk, step)
    return max(block, step * parts(parts(max(sizes), rows[0]), step))


def _row(mixer: Attention | Latent, setting: CacheSetting) -> int:
    if isinstance(mixer, Latent):
        return _latent(mixer, setting)
    return attention_row(mixer, setting.tp, setting.dtype)


def plain_dtype(name: str) -> CacheDtype:
    """The cache dtype of a torch dtype's name. Raises Lacking."""
    found = cache_dtype(name.removeprefix("torch."))
    if found is None:
        raise Lacking("dtype", name)
    return found
