"""Memory that a forward pass takes beside weights and cache, at the largest batch the engine lets itself run.

Counted from what is alive at once: in the widest layer, and where logits are sampled from. The rest (fragments of
the allocator, workspaces of libraries) is an interval whose source stands beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from canserve.memory.layers.kinds import (
    Attention,
    Compressed,
    Dense,
    Experts,
    Latent,
    Layer,
    Mixer,
    Mlp,
    Recurrent,
)
from canserve.memory.model_facts import ModelFacts
from canserve.memory.quantity import GIB, Quantity
from canserve.subjects.parallel import Placement, Rank

WIDE = 2
"""Bytes of an element of activations: bfloat16 or float16."""

HIDDEN_COPIES = 4.25
"""Hidden states alive at once in a layer: input, residual, normalised, output; the fraction is norm's float32
share. Fits 0.19.0's printed peaks of CodeLlama-7b and granite-3.1-8b, whose logits are small, within 2 %."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The largest batch of one step."""

    tokens: int
    sequences: int


@dataclass(frozen=True, slots=True)
class Work:
    """What one rank computes."""

    hidden: int
    vocabulary: int
    layers: tuple[Layer, ...]
    """Of its own stage."""
    tp: int
    expert_ranks: int
    """Over how many ranks whole experts are spread; 1: experts are cut like everything else."""
    last: bool
    """Whether it holds the output head."""
    encoder: bool
    """Whether it runs an image or audio encoder at start-up."""
    context: int = 0
    """Tokens of earlier context whose latent cache is projected up at once, where the start-up run reckons with it."""

    @classmethod
    def of(cls, rank: Rank, placement: Placement, model: ModelFacts) -> Work:
        """What a rank of a deployment computes."""
        return cls(
            hidden=model.hidden,
            vocabulary=model.vocabulary,
            layers=stage_layers(model.layers, placement.layers, rank.pp),
            tp=placement.parallel.tp,
            expert_ranks=placement.parallel.ep,
            last=rank.pp == placement.parallel.pp - 1,
            encoder=model.encoder,
        )


@dataclass(frozen=True, slots=True)
class Sampling:
    """Copies of the logits, in units of ``sequences * vocabulary * 4`` bytes, that are alive at once."""

    copies: float
    low: float
    high: float
    why: str


def forward_bytes(work: Work, batch: Batch) -> float:
    """Peak of the widest layer."""
    hidden = HIDDEN_COPIES * work.hidden
    widths = (batch.tokens * _layer_width(layer, work) + _context_width(layer, work) for layer in work.layers)
    return WIDE * (batch.tokens * hidden + max(widths, default=0))


def _context_width(layer: Layer, work: Work) -> float:
    """Elements of the keys and values that a latent cache's context is projected up to, on every head.

    Source: vLLM 0.11.0, v1/attention/backends/mla/common.py, which allocates it in its profile run. Sparse latent
    attention chooses its tokens first and never does this.
    """
    each = [m for m in layer.mixers if isinstance(m, Latent) and not m.index_heads]
    return work.context / work.tp * max((m.heads * (m.nope_dim + m.v_head_dim) for m in each), default=0)


def experts_bytes(work: Work, batch: Batch) -> float:
    """Workspace of the mixture kernels, which stays allocated: up projection, down projection's input, output.

    Source: vLLM 0.19.0, model_executor/layers/fused_moe, ``workspace_shapes``.
    """
    return WIDE * batch.tokens * max((_experts_width(layer, work) for layer in work.layers), default=0)


def sampling_bytes(work: Work, batch: Batch, copies: float) -> float:
    """Peak where the next tokens are chosen, hidden states of the whole batch included."""
    if not work.last:
        return 0
    rows = min(batch.sequences, batch.tokens)
    return copies * rows * work.vocabulary * 4 + WIDE * batch.tokens * work.hidden


def _layer_width(layer: Layer, work: Work) -> float:
    widths = [_mixer_width(mixer) / work.tp for mixer in layer.mixers]
    widths += [_dense_width(mlp, work) for mlp in layer.mlps]
    return max(widths, default=0)


def _mixer_width(mixer: Mixer) -> float:
    """Elements a token of queries, keys, values and output."""
    match mixer:
        case Attention(heads=heads, kv_heads=kv, head_dim=k, v_head_dim=v, gated=gated):
            return heads * k * (2 if gated else 1) + kv * (k + v) + heads * v
        case Latent(heads=heads, nope_dim=nope, rope_dim=rope, v_head_dim=v, kv_rank=rank):
            return heads * (nope + rope + rank + v) + rank + rope
        case Compressed(heads=heads, head_dim=dim):
            return 3 * heads * dim
        case Recurrent(heads=heads, head_dim=dim, state_dim=state, conv_channels=channels):
            # Chunked kernels keep one state for 64 tokens beside the rows of values.
            return 2 * channels + heads * dim * (3 + state / 64)


def _dense_width(mlp: Mlp, work: Work) -> float:
    match mlp:
        case Dense(width=width):
            return 3 * width / work.tp
        case Experts(shared_width=width):
            return 3 * width / work.tp


def _experts_width(layer: Layer, work: Work) -> float:
    widths = [0.0]
    for mlp in layer.mlps:
        if isinstance(mlp, Experts):
            cut = work.tp if work.expert_ranks == 1 else 1
            taken = mlp.per_token if work.expert_ranks == 1 else min(mlp.per_token, mlp.number)
            up = max(2 * mlp.width / cut, work.hidden)
            widths.append(taken * (up + mlp.width / cut) + work.hidden)
    return max(widths)


def activation(work: Work, batch: Batch, sampling: Sampling) -> Quantity:
    """The peak a start-up profile measures, with its interval."""
    ends = [_peak(work, batch, copies) for copies in (sampling.low, sampling.copies, sampling.high)]
    low, value, high = 0.7 * ends[0] - 0.05 * GIB, ends[1] + 0.05 * GIB, 1.15 * ends[2] + 0.3 * GIB
    parts = f"{batch.tokens} tokens, {min(batch.sequences, batch.tokens)} sequences; {sampling.why}"
    if work.encoder:
        value, high = value + 0.2 * GIB, high + 2 * GIB
        parts += "; the encoder's own run is bounded, not counted"
    return Quantity(value, max(min(low, value), 0), high, f"forward pass or sampling of {parts}")


def _peak(work: Work, batch: Batch, copies: float) -> float:
    own = max(forward_bytes(work, batch), sampling_bytes(work, batch, copies))
    return own + experts_bytes(work, batch)


def stage_layers(layers: Sequence[Layer], sizes: Sequence[int], stage: int) -> tuple[Layer, ...]:
    """The layers of one pipeline stage."""
    first = sum(sizes[:stage])
    return tuple(layers[first : first + sizes[stage]])
