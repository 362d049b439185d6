"""What single families have beside the usual blocks."""

from __future__ import annotations

from dataclasses import replace

from canserve.memory.fields import Fields
from canserve.memory.layers.kinds import Attention, Dense, Experts, Layer, Span
from canserve.memory.layers.text import Decoder
from canserve.memory.weights.blocks.draft import Draft

GATES_APART = frozenset({"afmoe", "step3p5", "step3p7", "step3p7_flash"})
"""Families whose attention gate is a projection of its own, not a part of the queries'."""


def before(draft: Draft, found: Decoder, layers: int, hidden: int) -> None:
    """Parameters between the embedding and the first layer."""
    per_layer = found.fields.number("hidden_size_per_layer_input", default=0)
    if found.family == "gemma4" and per_layer:
        vocabulary = found.fields.number("vocab_size_per_layer_input")
        draft.plain("embed_tokens_per_layer.weight", vocabulary, layers * per_layer)
        draft.linear("per_layer_model_projection", layers * per_layer, hidden)
        draft.norm("per_layer_projection_norm", per_layer)


def after(draft: Draft, found: Decoder, hidden: int) -> None:
    """Parameters between the last layer and the head."""
    if found.family in {"deepseek_v4", "deepseek_ref"}:
        streams = found.fields.number("hc_mult")
        draft.plain("hc_head_fn", streams, streams * hidden, dtype="F32")
        draft.plain("hc_head_base", streams, dtype="F32")
        draft.plain("hc_head_scale", 1, dtype="F32")


def widened(mlp: Dense, layer: Layer, found: Decoder) -> Dense:
    """The width of an MLP where the class changes what the config says."""
    fields = found.fields
    if found.family == "gemma4" and fields.flag("use_double_wide_mlp", False) and _shares(layer):
        return Dense(mlp.width * 2)
    if found.family in {"lfm2", "lfm2_moe"} and fields.flag(
        "block_auto_adjust_ff_dim", found.family == "lfm2"
    ):
        width = int(2 * mlp.width / 3)
        factor = fields.values.get("block_ffn_dim_multiplier", 1.0)
        if isinstance(factor, int | float):
            multiple = fields.number("block_multiple_of", default=256)
            return Dense(-(-int(width * factor) // multiple) * multiple)
    return mlp


def _shares(layer: Layer) -> bool:
    return any(isinstance(mixer, Attention) and mixer.shares is not None for mixer in layer.mixers)


def layer(draft: Draft, layer: Layer, found: Decoder, hidden: int) -> None:
    """Parameters of one layer beside norms, mixers and MLPs. The caller stands in it."""
    family, fields = found.family, found.fields
    mixer = next((each for each in layer.mixers if isinstance(each, Attention)), None)
    sparse = any(isinstance(mlp, Experts) for mlp in layer.mlps)
    if family == "gpt_oss" and mixer:
        draft.plain("self_attn.sinks", mixer.heads)
    elif family in {"mimo_v2_flash", "mimo_v2"} and mixer:
        kind = "swa" if mixer.span is Span.SLIDING else "full"
        if fields.flag(f"add_{kind}_attention_sink_bias", kind == "swa"):
            draft.plain("self_attn.attention_sink_bias", mixer.heads)
    elif family in {"step3p5", "step3p7", "step3p7_flash"} and mixer:
        draft.linear("self_attn.g_proj", mixer.heads, hidden)
    elif family == "afmoe" and mixer:
        draft.linear("self_attn.gate_proj", mixer.heads * mixer.head_dim, hidden)
    elif family == "gemma4":
        _gemma4(draft, fields, hidden, sparse)
    elif family in {"granitemoehybrid", "granitemoeshared"}:
        width = fields.number("shared_intermediate_size", default=0)
        if width:
            draft.linear("shared_mlp.input_linear", 2 * width, hidden)
            draft.linear("shared_mlp.output_linear", hidden, width)
    elif family == "minimax_m3" and mixer and mixer.index_dim:
        _minimax_index(draft, fields, mixer.index_dim, hidden)


def _gemma4(draft: Draft, fields: Fields, hidden: int, sparse: bool) -> None:
    draft.plain("layer_scalar", 1)
    if per_layer := fields.number("hidden_size_per_layer_input", default=0):
        draft.linear("per_layer_input_gate", per_layer, hidden)
        draft.linear("per_layer_projection", hidden, per_layer)
        draft.norm("post_per_layer_input_norm", hidden)
    if sparse:
        draft.plain("router.scale", hidden)
        draft.plain("router.per_expert_scale", fields.number("num_experts"))
        for name in (
            "post_feedforward_layernorm_1",
            "post_feedforward_layernorm_2",
            "pre_feedforward_layernorm_2",
        ):
            draft.norm(name, hidden)


def _minimax_index(draft: Draft, fields: Fields, width: int, hidden: int) -> None:
    heads = (fields.inner("sparse_attention_config") or fields).number("sparse_num_index_heads")
    with draft.under("self_attn"):
        draft.linear("index_q_proj", heads * width, hidden)
        draft.linear("index_k_proj", width, hidden)
        draft.norm("index_q_norm", width)
        draft.norm("index_k_norm", width)


def without_values(mixer: Attention, found: Decoder) -> bool:
    """Gemma 4: keys serve as values in full-attention layers."""
    return (
        found.family == "gemma4" and mixer.span is Span.FULL and found.fields.flag("attention_k_eq_v", False)
    )


def plain_gate(mixer: Attention) -> Attention:
    """The same attention with its gate left out."""
    return replace(mixer, gated=False)
