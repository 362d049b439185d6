"""Which kind each layer is: the dialects in which configs say it, brought to one list of words."""

from __future__ import annotations

from collections.abc import Sequence

from canserve.memory.fields import Lacking
from canserve.memory.layers.text import Decoder

WORDS = {
    "full_attention": "full", "attention": "full", "full": "full", "global": "full", "global_attention": "full",
    "deepseek_sparse_attention": "full", "minimax_m3_sparse": "full", "sparse": "full", "dense": "full",
    "sliding_attention": "sliding", "sliding_window_attention": "sliding", "local_attention": "sliding",
    "chunked_attention": "chunked", "linear_attention": "linear", "lightning_attention": "linear",
    "kda": "linear", "gdn": "linear", "mamba": "mamba", "mamba2": "mamba", "conv": "conv", "mlp": "mlp",
    "moe": "moe", "hybrid": "hybrid", "parallel_hybrid": "hybrid",
}  # fmt: skip
"""Names in ``layer_types`` and its like. ``mlp`` and ``moe``: such a layer has no mixer."""

LETTERS = {"M": "mamba", "*": "full", "-": "mlp", "E": "moe"}
"""Of ``hybrid_override_pattern`` (Nemotron-H)."""

EVERY_OTHER = {"gemma2": 2, "gemma3": 6, "gemma4": 6, "cohere2": 4, "gpt_oss": 2}
"""Sliding layers between full ones where the config leaves it to the class: every n-th layer is full."""


def pattern(decoder: Decoder, count: int) -> tuple[str, ...]:
    """The word of every layer. Raises Lacking where the config's own list cannot be understood."""
    for dialect in (_listed, _letters, _linear, _periodic, _indexed, _sliding):
        words = dialect(decoder, count)
        if words is not None:
            return words
    return ("full",) * count


def _listed(decoder: Decoder, count: int) -> tuple[str, ...] | None:
    fields = decoder.fields
    for name in ("layer_types", "layers_block_type"):
        listed = fields.sequence(name)
        if listed is None:
            continue
        if len(listed) < count:
            raise Lacking(fields.name(name), f"{len(listed)} entries for {count} layers")
        for entry in listed:
            if not isinstance(entry, str) or entry not in WORDS:
                raise Lacking(fields.name(name), entry)
        return tuple(WORDS[entry] for entry in listed[:count])
    return None


def _letters(decoder: Decoder, count: int) -> tuple[str, ...] | None:
    text = decoder.fields.text("hybrid_override_pattern")
    if not text:
        return None
    if len(text) != count or set(text) - set(LETTERS):
        raise Lacking(decoder.fields.name("hybrid_override_pattern"), text)
    return tuple(LETTERS[letter] for letter in text)


def _linear(decoder: Decoder, count: int) -> tuple[str, ...] | None:
    """Linear attention with a full layer now and then."""
    fields = decoder.fields
    if interval := fields.number("full_attention_interval", default=0):
        return _every(count, interval, "linear")
    if (group := fields.number("layer_group_size", default=0)) and fields.has("linear_silu"):
        return _every(count, group, "linear")
    if (inner := fields.inner("linear_attn_config")) is not None:
        kda, full = inner.sequence("kda_layers"), inner.sequence("full_attn_layers")
        if kda is None or full is None:
            raise Lacking(inner.name("full_attn_layers" if full is None else "kda_layers"))
        if sorted((*kda, *full)) != list(range(1, count + 1)):
            raise Lacking(inner.name("kda_layers"), f"not every one of {count} layers once")
        return tuple("full" if number in full else "linear" for number in range(1, count + 1))
    if (listed := fields.sequence("attn_type_list")) is not None:
        if len(listed) < count or set(listed) - {0, 1}:
            raise Lacking(fields.name("attn_type_list"), listed)
        return tuple("full" if entry else "linear" for entry in listed[:count])
    return None


def _periodic(decoder: Decoder, count: int) -> tuple[str, ...] | None:
    """Jamba: attention at ``offset`` of every ``period`` layers, Mamba elsewhere."""
    fields = decoder.fields
    if not (period := fields.number("attn_layer_period", default=0)):
        return None
    offset = fields.number("attn_layer_offset")
    return tuple("full" if number % period == offset else "mamba" for number in range(count))


def _indexed(decoder: Decoder, count: int) -> tuple[str, ...] | None:
    fields = decoder.fields
    if (listed := fields.sequence("attn_layer_indices")) is not None:
        return tuple("full" if number in listed else "mamba" for number in range(count))
    if (listed := fields.sequence("full_attn_idxs")) is not None:
        return tuple("full" if number in listed else "conv" for number in range(count))
    return None


def _sliding(decoder: Decoder, count: int) -> tuple[str, ...] | None:
    fields = decoder.fields
    if (marks := fields.sequence("hybrid_layer_pattern")) is not None:
        if len(marks) < count or set(marks) - {0, 1}:
            raise Lacking(fields.name("hybrid_layer_pattern"), marks)
        return tuple("sliding" if mark else "full" for mark in marks[:count])
    if fields.has("attention_chunk_size"):
        return _chunked(decoder, count)
    if not fields.has("sliding_window") or not fields.flag("use_sliding_window", True):
        return None
    for name in ("sliding_window_pattern", "_sliding_window_pattern"):
        value = fields.values.get(name)
        if isinstance(value, str) and value and not set(value) - set("LG"):
            return _repeat(tuple("full" if letter == "G" else "sliding" for letter in value), count)
        if value is not None:
            return _every(count, fields.number(name), "sliding")
    if every := EVERY_OTHER.get(decoder.family):
        return _every(count, every, "sliding")
    if fields.has("max_window_layers") and fields.has("use_sliding_window"):
        first = fields.number("max_window_layers")  # Qwen2: the layers from there on
        return tuple("sliding" if number >= first else "full" for number in range(count))
    return ("sliding",) * count


def _chunked(decoder: Decoder, count: int) -> tuple[str, ...]:
    """Llama 4: layers with rotary embedding see their chunk, those without see everything."""
    rotary: Sequence[object] = decoder.fields.sequence("no_rope_layers") or ()
    if not rotary:
        return _every(count, decoder.fields.number("no_rope_layer_interval", default=4), "chunked")
    if len(rotary) < count:
        raise Lacking(decoder.fields.name("no_rope_layers"), rotary)
    return tuple("chunked" if each else "full" for each in rotary[:count])


def _every(count: int, step: int, others: str) -> tuple[str, ...]:
    """Every ``step``-th layer is full attention; 0: none is."""
    return tuple("full" if step and (number + 1) % step == 0 else others for number in range(count))


def _repeat(words: Sequence[str], count: int) -> tuple[str, ...]:
    return tuple(words[number % len(words)] for number in range(count))
