"""What a layer of a model consists of: its mixers and its MLPs, with the numbers that memory depends on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias


class Span(StrEnum):
    """Which earlier tokens an attention layer sees."""

    FULL = "full"
    SLIDING = "sliding"
    """The last ``window`` tokens."""
    CHUNKED = "chunked"
    """The tokens of its own chunk of ``window`` tokens."""


@dataclass(frozen=True, slots=True)
class Attention:
    """Multi-head, grouped-query or multi-query attention. Head sizes in elements."""

    heads: int
    kv_heads: int
    head_dim: int
    """Of queries and keys."""
    v_head_dim: int
    span: Span = Span.FULL
    window: int | None = None
    """Tokens; None for full attention."""
    shares: int | None = None
    """Number of the earlier layer whose keys and values it uses; None: it has its own."""
    gated: bool = False
    """The query projection also yields an output gate of the same width."""
    index_dim: int = 0
    """Width of the one key a token that a sparse attention's indexer keeps; 0: no indexer."""


@dataclass(frozen=True, slots=True)
class Latent:
    """Multi-head latent attention (MLA): one compressed row a token, the same for all heads."""

    heads: int
    kv_rank: int
    rope_dim: int
    nope_dim: int
    v_head_dim: int
    q_rank: int | None
    """None: queries are not compressed."""
    index_heads: int = 0
    index_dim: int = 0
    """Sparse attention's indexer, one key of this width a token; 0: there is none."""
    index_own: bool = True
    """False where the layer reuses the choice of an earlier layer's indexer."""


@dataclass(frozen=True, slots=True)
class Compressed:
    """Attention over a cache that is compressed along the sequence (DeepSeek V4)."""

    heads: int
    head_dim: int
    rope_dim: int
    window: int
    """Tokens that are kept uncompressed."""
    ratio: int
    """Tokens that one cache row stands for; 0: nothing beyond the window is kept."""
    q_rank: int
    index_heads: int
    index_dim: int
    """Of the indexer, which only layers with the small ratio have; 0: none."""


class Recurrence(StrEnum):
    """Kinds of layers whose state does not grow with the sequence."""

    GDN = "gated delta net"
    KDA = "kimi delta attention"
    LIGHTNING = "lightning attention"
    MAMBA1 = "mamba"
    MAMBA2 = "mamba2"
    SHORT_CONV = "short convolution"


@dataclass(frozen=True, slots=True)
class Recurrent:
    """Linear attention or a state-space model. The state is ``heads * head_dim * state_dim`` elements."""

    kind: Recurrence
    heads: int
    """Value heads; channels for Mamba 1, whose head size is 1."""
    head_dim: int
    """Of a value head."""
    state_dim: int
    """Of a key head, or the state size."""
    key_heads: int
    """Key heads; groups for Mamba 2."""
    conv_channels: int
    """Channels of the convolution state; 0: there is none."""
    conv_kernel: int
    """Its width in tokens; ``kernel - 1`` of them are kept."""


Mixer: TypeAlias = Attention | Latent | Compressed | Recurrent


@dataclass(frozen=True, slots=True)
class Dense:
    """An ordinary MLP."""

    width: int


@dataclass(frozen=True, slots=True)
class Experts:
    """A mixture of experts."""

    number: int
    per_token: int
    width: int
    """Of one routed expert."""
    shared_width: int
    """Of all shared experts together; 0: there are none."""


Mlp: TypeAlias = Dense | Experts


@dataclass(frozen=True, slots=True)
class Layer:
    """One decoder layer. Most have one mixer and one MLP; some lack one, some have two side by side."""

    number: int
    mixers: tuple[Mixer, ...]
    mlps: tuple[Mlp, ...]
