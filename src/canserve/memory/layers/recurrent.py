"""The state of layers that do not look back: linear attention, state-space models, short convolutions.

Shapes are those of vLLM 0.33.0's ``MambaStateShapeCalculator``; each is checked against releases by the tests.
"""

from __future__ import annotations

from canserve.memory.fields import Lacking
from canserve.memory.layers.kinds import Recurrence, Recurrent
from canserve.memory.layers.text import Decoder

MAMBA1 = frozenset({"mamba", "falcon_mamba", "jamba"})
STATE_SPACE = MAMBA1 | {"nemotron_h", "granitemoehybrid", "bamba", "zamba2", "falcon_h1", "mamba2"}
"""Types whose recurrent layers are Mamba's: transformers 5 writes ``linear_attention`` for these too."""
LIGHTNING = frozenset({"minimax_text_01", "minimax_m1", "minimax", "bailing_hybrid"})


def recurrent(decoder: Decoder, word: str) -> Recurrent:
    """The recurrence of a layer of that kind. Raises Lacking."""
    if word == "conv":
        return _short(decoder)
    if word == "mamba" or decoder.family in STATE_SPACE:
        return _mamba1(decoder) if decoder.family in MAMBA1 else _mamba2(decoder)
    if decoder.fields.inner("linear_attn_config") is not None:
        return _kda(decoder)
    if decoder.family in LIGHTNING:
        return _lightning(decoder)
    return _gdn(decoder)


def _gdn(decoder: Decoder) -> Recurrent:
    fields = decoder.fields
    key_heads, value_heads = fields.number("linear_num_key_heads"), fields.number("linear_num_value_heads")
    key_dim, value_dim = fields.number("linear_key_head_dim"), fields.number("linear_value_head_dim")
    return Recurrent(
        Recurrence.GDN,
        heads=value_heads,
        head_dim=value_dim,
        state_dim=key_dim,
        key_heads=key_heads,
        conv_channels=2 * key_heads * key_dim + value_heads * value_dim,
        conv_kernel=fields.number("linear_conv_kernel_dim"),
    )


def _kda(decoder: Decoder) -> Recurrent:
    inner = decoder.fields.inner("linear_attn_config")
    if inner is None:
        raise Lacking(decoder.fields.name("linear_attn_config"))
    heads, width = inner.number("num_heads"), inner.number("head_dim")
    return Recurrent(
        Recurrence.KDA, heads, width, width, heads, 3 * heads * width, inner.number("short_conv_kernel_size")
    )


def _lightning(decoder: Decoder) -> Recurrent:
    fields = decoder.fields
    heads = fields.number("num_attention_heads")
    width = fields.number("head_dim", default=fields.number("hidden_size") // max(heads, 1))
    return Recurrent(Recurrence.LIGHTNING, heads, width, width, heads, 0, 0)


def _mamba1(decoder: Decoder) -> Recurrent:
    fields = decoder.fields
    if fields.has("intermediate_size") and decoder.family != "jamba":
        channels = fields.number("intermediate_size")
    else:
        channels = fields.number("mamba_expand", "expand") * fields.number("hidden_size")
    return Recurrent(
        Recurrence.MAMBA1,
        heads=channels,
        head_dim=1,
        state_dim=fields.number("mamba_d_state", "state_size"),
        key_heads=1,
        conv_channels=channels,
        conv_kernel=fields.number("mamba_d_conv", "conv_kernel"),
    )


def _mamba2(decoder: Decoder) -> Recurrent:
    fields = decoder.fields
    heads = fields.number("mamba_num_heads", "mamba_n_heads", "n_mamba_heads", "num_heads")
    width = fields.number("mamba_head_dim", "mamba_d_head", "mamba_headdim", "head_dim")
    state = fields.number("ssm_state_size", "mamba_d_state", "state_size")
    groups = fields.number("n_groups", "mamba_n_groups", "mamba_ngroups")
    return Recurrent(
        Recurrence.MAMBA2,
        heads=heads,
        head_dim=width,
        state_dim=state,
        key_heads=groups,
        conv_channels=heads * width + 2 * groups * state,
        conv_kernel=fields.number("conv_kernel", "mamba_d_conv"),
    )


def _short(decoder: Decoder) -> Recurrent:
    fields = decoder.fields
    channels = fields.number("conv_dim", "hidden_size")
    return Recurrent(Recurrence.SHORT_CONV, 0, 0, 0, 0, channels, fields.number("conv_L_cache"))
