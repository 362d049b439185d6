"""Attention of one layer, from a config's keys. All raise Lacking for a number that is not there."""

from __future__ import annotations

from canserve.memory.fields import Fields, Lacking
from canserve.memory.layers.families import COMPRESSED, LATENT, NO_GROUPS, OWN_HEAD_DIM
from canserve.memory.layers.kinds import Attention, Compressed, Latent, Mixer, Span
from canserve.memory.layers.recurrent import recurrent
from canserve.memory.layers.text import Decoder

HEADS = ("num_attention_heads", "n_head", "num_heads", "n_heads")
KV_HEADS = ("num_key_value_heads", "num_kv_heads", "multi_query_group_num", "num_attention_groups")
HIDDEN = ("hidden_size", "n_embd", "d_model")


GATED = frozenset({"qwen3_next", "qwen3_5", "qwen3_5_moe"})
"""Types whose attention has an output gate unless the config says otherwise."""


def mixers(decoder: Decoder, number: int, word: str) -> tuple[Mixer, ...]:
    """The mixers of a layer of that kind."""
    if word in {"mlp", "moe"}:
        return ()
    if word in {"linear", "mamba", "conv"}:
        return (recurrent(decoder, word),)
    if word == "hybrid":
        if decoder.family != "zamba2":
            raise Lacking(decoder.fields.name("layer_types"), "hybrid")
        return (recurrent(decoder, "mamba"), _attention(decoder, number, "full"))
    if decoder.family in COMPRESSED:
        return (_compressed(decoder, number),)
    if decoder.family in LATENT and decoder.fields.has("kv_lora_rank"):
        return (_latent(decoder, number),) * (2 if decoder.family == "longcat_flash" else 1)
    attention = _attention(decoder, number, word)
    if decoder.family == "falcon_h1":
        return (recurrent(decoder, "mamba"), attention)
    return (attention,)


def _attention(decoder: Decoder, number: int, word: str) -> Attention:
    fields = decoder.fields
    heads, kv_heads, k, v = _widths(decoder, word)
    if not heads or not kv_heads:
        raise Lacking(decoder.fields.name(KV_HEADS[0] if heads else HEADS[0]), 0)
    window = None
    if word == "sliding":
        window = fields.number("sliding_window", "sliding_window_size")
    elif word == "chunked":
        window = fields.number("attention_chunk_size")
    return Attention(
        heads=heads,
        kv_heads=kv_heads,
        head_dim=k,
        v_head_dim=v,
        span=Span(word),
        window=window,
        shares=_shared(decoder, number, word),
        gated=fields.flag("attn_output_gate", decoder.family in GATED),
        index_dim=_index_dim(fields, number),
    )


def _widths(decoder: Decoder, word: str) -> tuple[int, int, int, int]:
    """Heads, KV heads, key and value width of a full or of a sliding layer, which may differ."""
    fields = decoder.fields
    if word == "sliding" and fields.has("swa_head_dim"):  # MiMo-V2
        k = fields.number("swa_head_dim")
        heads, kv = fields.number("swa_num_attention_heads"), fields.number("swa_num_key_value_heads")
        return heads, kv, k, fields.number("swa_v_head_dim", default=k)
    heads = fields.number(*HEADS)
    if word == "sliding" and (other := fields.inner("attention_other_setting")) is not None:  # Step-3.5
        heads = other.number("num_attention_heads")
        kv = other.number("num_attention_groups")
        k = other.number("head_dim", default=fields.number("head_dim"))
        return heads, kv, k, k
    if word == "full" and fields.has("global_head_dim"):  # Gemma 4
        k = fields.number("global_head_dim")
        shared = fields.flag("attention_k_eq_v", False)
        names = ("num_global_key_value_heads", *KV_HEADS) if shared else KV_HEADS
        return heads, fields.number(*names), k, k
    k = _head_dim(decoder, heads)
    v = fields.number("v_head_dim", default=k) if "mimo" in decoder.family else k
    return heads, _kv_heads(decoder, heads), k, v


def _head_dim(decoder: Decoder, heads: int) -> int:
    fields = decoder.fields
    if fields.has("head_dim") or fields.has("attention_head_dim") or decoder.family in OWN_HEAD_DIM:
        return fields.number("head_dim", "attention_head_dim")
    hidden = fields.number(*HIDDEN)
    if not heads or hidden % heads:
        raise Lacking(fields.name("head_dim"))
    return hidden // heads


def _kv_heads(decoder: Decoder, heads: int) -> int:
    default = heads if decoder.family in NO_GROUPS else None
    if decoder.fields.flag("multi_query", False) and not decoder.fields.has(KV_HEADS[0]):
        default = 1
    return decoder.fields.number(*KV_HEADS, default=default)


def _index_dim(fields: Fields, number: int) -> int:
    """MiniMax-M3: sparse layers keep one more, narrow key a token."""
    inner = fields.inner("sparse_attention_config")
    if inner is None or not inner.flag("use_sparse_attention", True):
        return 0
    marks = inner.sequence("sparse_attention_freq")
    if marks is None or number >= len(marks):
        raise Lacking(inner.name("sparse_attention_freq"))
    return inner.number("sparse_index_dim") if marks[number] else 0


def _shared(decoder: Decoder, number: int, word: str) -> int | None:
    """The layer whose keys and values this one uses: the last of its kind before the sharing begins."""
    fields = decoder.fields
    if (factor := fields.number("cla_share_factor", default=0)) and fields.flag("use_cla", False):
        return number - number % factor if number % factor else None
    if not (count := fields.number("num_kv_shared_layers", default=0)):
        return None
    first = fields.number("num_hidden_layers") - count
    if number < first:
        return None
    from canserve.memory.layers.pattern import pattern

    own = [at for at, each in enumerate(pattern(decoder, first)) if each == word]
    if not own:
        raise Lacking(fields.name("num_kv_shared_layers"), count)
    return own[-1]


def _latent(decoder: Decoder, number: int) -> Latent:
    fields = decoder.fields
    own = True
    if (kinds := fields.sequence("indexer_types")) is not None:
        if number >= len(kinds):
            raise Lacking(fields.name("indexer_types"), f"{len(kinds)} entries")
        own = kinds[number] == "full"
    indexed = fields.has("index_topk") or fields.has("index_head_dim")
    return Latent(
        heads=fields.number(*HEADS),
        kv_rank=fields.number("kv_lora_rank"),
        rope_dim=fields.number("qk_rope_head_dim"),
        nope_dim=fields.number("qk_nope_head_dim"),
        v_head_dim=fields.number("v_head_dim"),
        q_rank=fields.number("q_lora_rank") if fields.has("q_lora_rank") else None,
        index_heads=fields.number("index_n_heads") if indexed else 0,
        index_dim=fields.number("index_head_dim") if indexed else 0,
        index_own=own,
    )


def _compressed(decoder: Decoder, number: int) -> Compressed:
    fields = decoder.fields
    ratios = fields.sequence("compress_ratios")
    if ratios is None or number >= len(ratios) or type(ratios[number]) is not int:
        raise Lacking(fields.name("compress_ratios"), ratios)
    return Compressed(
        heads=fields.number(*HEADS),
        head_dim=fields.number("head_dim"),
        rope_dim=fields.number("qk_rope_head_dim"),
        window=fields.number("sliding_window"),
        ratio=ratios[number],
        q_rank=fields.number("q_lora_rank"),
        index_heads=fields.number("index_n_heads") if ratios[number] == 4 else 0,
        index_dim=fields.number("index_head_dim") if ratios[number] == 4 else 0,
    )
