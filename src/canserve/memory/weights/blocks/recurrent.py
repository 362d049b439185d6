"""Parameters of mixers whose state does not grow: GDN, KDA, Mamba, short convolutions."""

from __future__ import annotations

from canserve.memory.fields import Fields
from canserve.memory.layers.kinds import Recurrence, Recurrent
from canserve.memory.weights.blocks.draft import Draft


def recurrent(draft: Draft, mixer: Recurrent, hidden: int, fields: Fields, family: str) -> None:
    """The parameters of one such mixer. Raises Lacking."""
    match mixer.kind:
        case Recurrence.GDN:
            _gdn(draft, mixer, hidden, fused=family == "qwen3_next")
        case Recurrence.KDA:
            _kda(draft, mixer, hidden, fields)
        case Recurrence.MAMBA2:
            _mamba2(draft, mixer, hidden, fields, family)
        case Recurrence.MAMBA1:
            _mamba1(draft, mixer, hidden, fields, family)
        case Recurrence.SHORT_CONV:
            _short(draft, mixer, hidden, fields)
        case Recurrence.LIGHTNING:
            _lightning(draft, mixer, hidden)


def _gdn(draft: Draft, mixer: Recurrent, hidden: int, fused: bool) -> None:
    keys, values = mixer.key_heads * mixer.state_dim, mixer.heads * mixer.head_dim
    if fused:
        draft.linear("in_proj_qkvz", 2 * keys + 2 * values, hidden)
        draft.linear("in_proj_ba", 2 * mixer.heads, hidden)
    else:
        draft.linear("in_proj_qkv", 2 * keys + values, hidden)
        draft.linear("in_proj_z", values, hidden)
        draft.linear("in_proj_a", mixer.heads, hidden)
        draft.linear("in_proj_b", mixer.heads, hidden)
    draft.plain("conv1d.weight", mixer.conv_channels, 1, mixer.conv_kernel)
    draft.plain("dt_bias", mixer.heads)
    draft.plain("A_log", mixer.heads, dtype=None if fused else "F32")
    draft.norm("norm", mixer.head_dim)
    draft.linear("out_proj", hidden, values)


def _kda(draft: Draft, mixer: Recurrent, hidden: int, fields: Fields) -> None:
    width = mixer.heads * mixer.head_dim
    for name in ("q_proj", "k_proj", "v_proj"):
        draft.linear(name, width, hidden)
    for name in ("q_conv1d", "k_conv1d", "v_conv1d"):
        draft.plain(f"{name}.weight", width, 1, mixer.conv_kernel)
    inner = fields.inner("linear_attn_config") or fields
    draft.plain("A_log", *((mixer.heads,) if inner.has("use_full_rank_gate") else (1, 1, mixer.heads, 1)))
    draft.linear("f_a_proj", mixer.head_dim, hidden)
    draft.linear("f_b_proj", width, mixer.head_dim)
    draft.plain("dt_bias", width)
    draft.linear("b_proj", mixer.heads, hidden)
    if inner.flag("use_full_rank_gate", False):
        draft.linear("g_proj", width, hidden)
    else:
        draft.linear("g_a_proj", mixer.head_dim, hidden)
        draft.linear("g_b_proj", width, mixer.head_dim)
    draft.norm("o_norm", mixer.head_dim)
    draft.linear("o_proj", hidden, width)


def _mamba2(draft: Draft, mixer: Recurrent, hidden: int, fields: Fields, family: str) -> None:
    inner = mixer.heads * mixer.head_dim
    bias = fields.flag("mamba_proj_bias", fields.flag("use_bias", False))
    draft.plain("A_log", mixer.heads)
    draft.plain("D", mixer.heads)
    draft.plain("dt_bias", mixer.heads)
    draft.plain("conv1d.weight", mixer.conv_channels, 1, mixer.conv_kernel)
    if fields.flag("mamba_conv_bias", fields.flag("use_conv_bias", True)):
        draft.plain("conv1d.bias", mixer.conv_channels)
    draft.linear("in_proj", inner + mixer.conv_channels + mixer.heads, hidden, bias)
    if family != "falcon_h1" or fields.flag("mamba_rms_norm", False):
        draft.norm("norm", inner)
    draft.linear("out_proj", hidden, inner, fields.flag("projectors_bias", bias))


def _mamba1(draft: Draft, mixer: Recurrent, hidden: int, fields: Fields, family: str) -> None:
    channels = mixer.heads
    rank = fields.number("mamba_dt_rank", "time_step_rank", default=-(-hidden // 16))
    bias = fields.flag("mamba_proj_bias", fields.flag("use_bias", False))
    draft.plain("A_log", channels, mixer.state_dim)
    draft.plain("D", channels)
    draft.plain("conv1d.weight", channels, 1, mixer.conv_kernel)
    if fields.flag("mamba_conv_bias", fields.flag("use_conv_bias", True)):
        draft.plain("conv1d.bias", channels)
    draft.linear("in_proj", 2 * channels, hidden, bias)
    draft.linear("x_proj", rank + 2 * mixer.state_dim, channels)
    draft.linear("dt_proj", channels, rank, bias=True)
    if family == "jamba":
        draft.norm("dt_layernorm", rank)
        draft.norm("b_layernorm", mixer.state_dim)
        draft.norm("c_layernorm", mixer.state_dim)
    draft.linear("out_proj", hidden, channels, bias)


def _lightning(draft: Draft, mixer: Recurrent, hidden: int) -> None:
    width = mixer.heads * mixer.head_dim
    draft.linear("qkv_proj", 3 * width, hidden)
    draft.norm("norm", width)
    draft.linear("output_gate", width, hidden)
    draft.linear("out_proj", hidden, width)


def _short(draft: Draft, mixer: Recurrent, hidden: int, fields: Fields) -> None:
    bias = fields.flag("conv_bias", False)
    draft.linear("in_proj", 3 * mixer.conv_channels, hidden, bias)
    draft.plain("conv.weight", mixer.conv_channels, 1, mixer.conv_kernel)
    if bias:
        draft.plain("conv.bias", mixer.conv_channels)
    draft.linear("out_proj", hidden, mixer.conv_channels, bias)
