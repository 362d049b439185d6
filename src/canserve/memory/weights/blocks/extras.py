"""What single families have beside the usual blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from canserve.memory.fields import Fields
from canserve.memory.layers.kinds import Attention, Dense, Experts, Layer, Span
from canserve.memory.layers.text import Decoder
from canserve.memory.weights.blocks.draft import Draft
from canserve.memory.weights.blocks.style import Style

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
    if found.fields.has("attn_res_block_size"):
        draft.norm("output_attn_res_norm", hidden)
        draft.plain("output_attn_res_proj.weight", 1, hidden)
    if found.family in HYPER:
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


def layer(draft: Draft, at: Layer, found: Decoder, hidden: int) -> None:
    """Parameters of one layer beside norms, mixers and MLPs. The caller stands in it."""
    own = OWN.get(found.family)
    if own is not None:
        own(draft, at, found.fields, hidden)
    if found.fields.has("attn_res_block_size"):  # Kimi K3
        for name in ("self_attention_res", "mlp_res"):
            draft.norm(f"{name}_norm", hidden)
            draft.plain(f"{name}_proj.weight", 1, hidden)


def _attention(at: Layer) -> Attention | None:
    return next((each for each in at.mixers if isinstance(each, Attention)), None)


def _sinks(draft: Draft, at: Layer, _fields: Fields, _hidden: int) -> None:
    if mixer := _attention(at):
        draft.plain("self_attn.sinks", mixer.heads)


def _mimo_sinks(draft: Draft, at: Layer, fields: Fields, _hidden: int) -> None:
    if mixer := _attention(at):
        kind = "swa" if mixer.span is Span.SLIDING else "full"
        if fields.flag(f"add_{kind}_attention_sink_bias", kind == "swa"):
            draft.plain("self_attn.attention_sink_bias", mixer.heads)


def _gate_a_head(draft: Draft, at: Layer, _fields: Fields, hidden: int) -> None:
    if mixer := _attention(at):
        draft.linear("self_attn.g_proj", mixer.heads, hidden)


def _gate_an_element(draft: Draft, at: Layer, _fields: Fields, hidden: int) -> None:
    if mixer := _attention(at):
        draft.linear("self_attn.gate_proj", mixer.heads * mixer.head_dim, hidden)


def _shared_mlp(draft: Draft, _at: Layer, fields: Fields, hidden: int) -> None:
    if width := fields.number("shared_intermediate_size", default=0):
        draft.linear("shared_mlp.input_linear", 2 * width, hidden)
        draft.linear("shared_mlp.output_linear", hidden, width)


def _activation(draft: Draft, _at: Layer, _fields: Fields, _hidden: int) -> None:
    for name, shape in (("alpha_p", (1,)), ("alpha_n", (1,)), ("beta", ()), ("eps", ())):
        draft.plain(f"mlp.act_fn.{name}", *shape)


def _gemma4(draft: Draft, at: Layer, fields: Fields, hidden: int) -> None:
    draft.plain("layer_scalar", 1)
    if per_layer := fields.number("hidden_size_per_layer_input", default=0):
        draft.linear("per_layer_input_gate", per_layer, hidden)
        draft.linear("per_layer_projection", hidden, per_layer)
        draft.norm("post_per_layer_input_norm", hidden)
    if any(isinstance(mlp, Experts) for mlp in at.mlps):
        draft.plain("router.scale", hidden)
        draft.plain("router.per_expert_scale", fields.number("num_experts"))
        for name in (
            "post_feedforward_layernorm_1", "post_feedforward_layernorm_2", "pre_feedforward_layernorm_2",
        ):  # fmt: skip
            draft.norm(name, hidden)


def _minimax_index(draft: Draft, at: Layer, fields: Fields, hidden: int) -> None:
    mixer = _attention(at)
    if mixer is None or not mixer.index_dim:
        return
    heads = (fields.inner("sparse_attention_config") or fields).number("sparse_num_index_heads")
    with draft.under("self_attn"):
        draft.linear("index_q_proj", heads * mixer.index_dim, hidden)
        draft.linear("index_k_proj", mixer.index_dim, hidden)
        draft.norm("index_q_norm", mixer.index_dim)
        draft.norm("index_k_norm", mixer.index_dim)


def _hyper(draft: Draft, _at: Layer, fields: Fields, hidden: int) -> None:
    streams = fields.number("hc_mult")
    mixes = (2 + streams) * streams
    for name in ("hc_attn", "hc_ffn"):
        draft.plain(f"{name}_fn", mixes, streams * hidden, dtype="F32")
        draft.plain(f"{name}_base", mixes, dtype="F32")
        draft.plain(f"{name}_scale", 3, dtype="F32")


OWN: Mapping[str, Callable[[Draft, Layer, Fields, int], None]] = {
    "afmoe": _gate_an_element,
    "apertus": _activation,
    "deepseek_ref": _hyper,
    "deepseek_v4": _hyper,
    "gemma4": _gemma4,
    "gpt_oss": _sinks,
    "granitemoehybrid": _shared_mlp,
    "granitemoeshared": _shared_mlp,
    "mimo_v2": _mimo_sinks,
    "mimo_v2_flash": _mimo_sinks,
    "minimax_m3": _minimax_index,
    "step3p5": _gate_a_head,
    "step3p7": _gate_a_head,
    "step3p7_flash": _gate_a_head,
}
"""What the layers of one family have that no other's have."""


HYPER = frozenset({"deepseek_v4", "deepseek_ref"})
"""Families whose residual stream is several streams, mixed by learned weights."""


def routed(style: Style, layer: Layer, found: Decoder) -> Style:
    """The first layers of DeepSeek V4 choose experts by a table of token numbers, not by scores."""
    if found.family not in HYPER or layer.number >= found.fields.number("num_hash_layers", default=0):
        return style
    return replace(style, moe=replace(style.moe, correction="", table="gate.tid2eid"))


def shared_instead(found: Decoder) -> bool:
    """Granite's hybrids without experts: the MLP that others share is their only one."""
    return found.family in {"granitemoehybrid", "granitemoeshared"}


def without_values(mixer: Attention, found: Decoder) -> bool:
    """Gemma 4: keys serve as values in full-attention layers."""
    return (
        found.family == "gemma4" and mixer.span is Span.FULL and found.fields.flag("attention_k_eq_v", False)
    )
