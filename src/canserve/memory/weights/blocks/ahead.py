"""Parameters of the extra layers that predict tokens ahead (MTP, NextN)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from canserve.memory.fields import Lacking
from canserve.memory.layers.kinds import Attention, Experts, Layer, Mlp
from canserve.memory.layers.mixers import mixers
from canserve.memory.layers.mlps import mlps
from canserve.memory.layers.pattern import LETTERS, WORDS
from canserve.memory.weights.blocks.draft import Draft
from canserve.memory.weights.blocks.text import Text, decoder_layer

MAX_AHEAD = 64
COUNTS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules", "mtp_num_layers")

UNSAID = {"qwen3_next": 1}
"""Families whose published checkpoints hold such layers while their configs do not say so."""


def ahead(draft: Draft, model: Text) -> None:
    """List them, where the family's checkpoints are known to hold them. Raises Lacking."""
    lister = LISTERS.get(model.found.family)
    count = model.fields.number(*COUNTS, default=UNSAID.get(model.found.family, 0))
    if lister is None or not 0 < count <= MAX_AHEAD:
        return
    with draft.under(""):
        lister(draft, model, count)


def _last(model: Text) -> Layer:
    """A layer like the last one of its decoder that attends fully."""
    full = [layer for layer in model.layers if any(isinstance(each, Attention) for each in layer.mixers)]
    return (full or list(model.layers))[-1]


def _appended(draft: Draft, model: Text, count: int) -> None:
    """DeepSeek, GLM: further layers behind the last, each with embedding and head of its own."""
    hidden, vocabulary = model.hidden, model.fields.number("vocab_size")
    for number in range(len(model.layers), len(model.layers) + count):
        with draft.under(f"{model.style.root}.{model.style.layers}.{number}"):
            draft.plain("embed_tokens.weight", vocabulary, hidden)
            draft.norm("enorm", hidden)
            draft.norm("hnorm", hidden)
            draft.plain("eh_proj.weight", hidden, 2 * hidden)
            draft.norm("shared_head.norm", hidden)
            draft.plain("shared_head.head.weight", vocabulary, hidden)
            decoder_layer(draft, replace(model.layers[-1], number=number), model)


def _qwen(draft: Draft, model: Text, count: int) -> None:
    """Qwen3-Next, Qwen3.5: a module of their own, which shares embedding and head."""
    hidden = model.hidden
    with draft.under("mtp"):
        draft.plain("fc.weight", hidden, 2 * hidden)
        draft.norm("norm", hidden)
        draft.norm("pre_fc_norm_embedding", hidden)
        draft.norm("pre_fc_norm_hidden", hidden)
        for number in range(count):
            with draft.under(f"layers.{number}"):
                decoder_layer(draft, replace(_last(model), number=number), model)


def _mimo(draft: Draft, model: Text, count: int) -> None:
    hidden = model.hidden
    for number in range(count):
        with draft.under(f"{model.style.root}.mtp_layers.{number}"):
            draft.plain("input_proj.weight", hidden, 2 * hidden)
            for name in ("token_layernorm", "hidden_layernorm", "final_layernorm"):
                draft.norm(name, hidden)
            decoder_layer(draft, replace(_last(model), number=number), model)


def _nemotron(draft: Draft, model: Text, count: int) -> None:
    """Nemotron-H: a pattern of layers of its own for each step, joined by its first and ended by its last."""
    hidden, found = model.hidden, model.found
    letters = model.fields.text("mtp_hybrid_override_pattern")
    listed = model.fields.sequence("mtp_layers_block_type") or ()
    words = [LETTERS.get(each, "") for each in letters] or [WORDS.get(str(each), "") for each in listed]
    if "" in words or not 0 < len(words) <= MAX_AHEAD:
        raise Lacking(model.fields.name("mtp_hybrid_override_pattern"), letters or None)
    for number, word in enumerate(words * count):
        with draft.under(f"mtp.layers.{number}"):
            if number % len(words) == 0:
                draft.norm("enorm", hidden)
                draft.norm("hnorm", hidden)
                draft.linear("eh_proj", hidden, 2 * hidden)
            if number % len(words) == len(words) - 1:
                draft.norm("final_layernorm", hidden)
            layer = Layer(number, mixers(found, number, word), mlps(found, number, word))
            decoder_layer(draft, layer, model)


def _compressed(draft: Draft, model: Text, count: int) -> None:
    """DeepSeek V4: two projections, and streams of its own; no compressor."""
    from canserve.memory.layers.kinds import Compressed

    hidden, streams = model.hidden, model.fields.number("hc_mult")
    mixers = tuple(
        replace(each, ratio=0, index_heads=0, index_dim=0) if isinstance(each, Compressed) else each
        for each in model.layers[-1].mixers
    )
    mlps: tuple[Mlp, ...] = tuple(each for each in model.layers[-1].mlps if isinstance(each, Experts))
    for number in range(count):
        with draft.under(f"mtp.{number}"):
            for name in ("e_proj", "h_proj"):
                draft.linear(name, hidden, hidden)
            for name in ("enorm", "hnorm", "norm"):
                draft.norm(name, hidden)
            draft.plain("hc_head_fn", streams, streams * hidden, dtype="F32")
            draft.plain("hc_head_base", streams, dtype="F32")
            draft.plain("hc_head_scale", 1, dtype="F32")
            decoder_layer(draft, Layer(len(model.layers) + number, mixers, mlps), model)


LISTERS: Mapping[str, Callable[[Draft, Text, int], None]] = {
    "deepseek_v3": _appended,
    "deepseek_v32": _appended,
    "deepseek_v4": _compressed,
    "deepseek_ref": _compressed,
    "glm4_moe": _appended,
    "glm_moe_dsa": _appended,
    "qwen3_next": _qwen,
    "qwen3_5": _qwen,
    "qwen3_5_moe": _qwen,
    "mimo": _mimo,
    "nemotron_h": _nemotron,
}
"""Families whose checkpoints hold such layers in a known form; elsewhere none are listed."""
