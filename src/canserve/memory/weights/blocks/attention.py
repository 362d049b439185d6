"""Parameters of attention: multi-head and grouped, latent (MLA), and compressed (DeepSeek V4)."""

from __future__ import annotations

from canserve.memory.fields import Fields
from canserve.memory.layers.kinds import Attention, Compressed, Latent
from canserve.memory.weights.blocks.draft import Draft
from canserve.memory.weights.blocks.style import Style, holds


def attention(draft: Draft, mixer: Attention, hidden: int, style: Style, fields: Fields) -> None:
    """Queries, keys, values, output; norms of queries and keys."""
    queries, keys = mixer.heads * mixer.head_dim, mixer.kv_heads * mixer.head_dim
    values, out = mixer.kv_heads * mixer.v_head_dim, mixer.heads * mixer.v_head_dim
    bias = holds(style.qkv_bias, fields)
    rows = (queries * (1 + mixer.gated), keys, values)
    own = mixer.shares is None
    if len(style.qkv) == 1:
        draft.linear(style.qkv[0], sum(rows), hidden, bias)
    else:  # fewer than three names: keys serve as values
        for name, outputs in zip(style.qkv, rows, strict=False):
            if own or name == style.qkv[0]:
                draft.linear(name, outputs, hidden, bias)
    draft.linear(style.output, hidden, out, holds(style.output_bias, fields))
    if style.qk_norm and holds(style.qk_flag, fields):
        _norms(draft, mixer, style, own)


def _norms(draft: Draft, mixer: Attention, style: Style, own: bool) -> None:
    for name, heads in zip(style.qk_names, (mixer.heads, mixer.kv_heads), strict=True):
        if not own and name == style.qk_names[1]:
            continue
        match style.qk_norm:
            case "full":
                draft.norm(name, heads * mixer.head_dim)
            case "heads":
                draft.plain(f"{name}.weight", heads, mixer.head_dim)
            case _:
                draft.norm(name, mixer.head_dim, bool(style.norm_bias) and style.qk_names[0] == "q_layernorm")


def latent(draft: Draft, mixer: Latent, hidden: int, fields: Fields) -> None:
    """Compressed queries, keys and values, and the indexer of sparse attention."""
    bias = fields.flag("attention_bias", False)
    queries = mixer.heads * (mixer.nope_dim + mixer.rope_dim)
    if mixer.q_rank:
        draft.linear("q_a_proj", mixer.q_rank, hidden, bias)
        draft.norm("q_a_layernorm", mixer.q_rank)
        draft.linear("q_b_proj", queries, mixer.q_rank)
    else:
        draft.linear("q_proj", queries, hidden)
    draft.linear("kv_a_proj_with_mqa", mixer.kv_rank + mixer.rope_dim, hidden, bias)
    draft.norm("kv_a_layernorm", mixer.kv_rank)
    draft.linear("kv_b_proj", mixer.heads * (mixer.nope_dim + mixer.v_head_dim), mixer.kv_rank)
    draft.linear("o_proj", hidden, mixer.heads * mixer.v_head_dim, bias)
    if fields.flag("mla_use_output_gate", False):
        draft.linear("g_proj", mixer.heads * mixer.v_head_dim, hidden)
    if mixer.index_heads and mixer.index_own:
        with draft.under("indexer"):
            draft.linear("wq_b", mixer.index_heads * mixer.index_dim, mixer.q_rank or hidden)
            draft.linear("wk", mixer.index_dim, hidden)
            draft.norm("k_norm", mixer.index_dim, bias=True)
            draft.plain("weights_proj.weight", mixer.index_heads, hidden)


def compressed(draft: Draft, mixer: Compressed, hidden: int, fields: Fields) -> None:
    """Attention over compressed rows: low-rank queries and output, one key for all heads, compressors."""
    groups, rank = fields.number("o_groups"), fields.number("o_lora_rank")
    width = mixer.heads * mixer.head_dim
    draft.plain("attn_sink", mixer.heads, dtype="F32")
    draft.linear("wq_a", mixer.q_rank, hidden)
    draft.norm("q_norm", mixer.q_rank)
    draft.linear("wq_b", width, mixer.q_rank)
    draft.linear("wkv", mixer.head_dim, hidden)
    draft.norm("kv_norm", mixer.head_dim)
    draft.linear("wo_a", groups * rank, width // max(groups, 1))
    draft.linear("wo_b", hidden, groups * rank)
    if mixer.ratio:
        _compressor(draft, mixer.head_dim, mixer.ratio, hidden)
    if mixer.index_heads:
        with draft.under("indexer"):
            draft.linear("wq_b", mixer.index_heads * mixer.index_dim, mixer.q_rank)
            draft.plain("weights_proj.weight", mixer.index_heads, hidden)
            _compressor(draft, mixer.index_dim, mixer.ratio, hidden)


def _compressor(draft: Draft, width: int, ratio: int, hidden: int) -> None:
    """Rows of neighbouring groups overlap where few tokens make a row: twice the width then."""
    both = width * 2 if ratio == 4 else width
    with draft.under("compressor"):
        draft.plain("ape", ratio, both, dtype="F32")
        draft.plain("wkv.weight", both, hidden)
        draft.plain("wgate.weight", both, hidden)
        draft.norm("norm", width)
