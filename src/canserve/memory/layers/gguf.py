"""The layers a GGUF header describes: its keys, under the name of its architecture, and what they mean.

Source of the keys: llama.cpp's gguf-py, ``constants.py``; of the patterns: its src/models, ``load_swa_pattern``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from canserve.memory.fields import Lacking
from canserve.memory.layers.kinds import (
    Attention,
    Dense,
    Experts,
    Latent,
    Layer,
    Mixer,
    Mlp,
    Recurrence,
    Recurrent,
    Span,
)

MAX_LAYERS = 2000
WINDOWS = {
    "afmoe": 4, "cohere2": 4, "exaone4": 4, "exaone-moe": 4, "gemma2": 2, "gemma3": 6, "gemma3n": 5, "gpt-oss": 2,
    "llama4": 4, "mellum": 4, "muse-glimmer": 4, "olmo2": 4, "plamo3": 8,
}  # fmt: skip
"""Architectures whose every n-th layer is full attention where the header does not say which."""
NO_WINDOW = frozenset({"phi3"})
"""Architectures whose window is stated and not used."""
RECURRENT = frozenset(
    {"jamba", "nemotron_h", "nemotron_h_moe", "granitehybrid", "falcon-h1", "plamo2", "lfm2", "lfm2moe"}
)
GATED = frozenset({"qwen3next", "qwen35", "qwen35moe"})
PURE = frozenset({"mamba", "mamba2"})


@dataclass(frozen=True, slots=True)
class Keys:
    """A header's values of one architecture."""

    architecture: str
    values: Mapping[str, object]

    def number(self, name: str, default: int | None = None) -> int:
        """A whole number. Raises Lacking."""
        value = self.values.get(f"{self.architecture}.{name}")
        if value is None and default is not None:
            return default
        if type(value) is not int or value < 0:
            raise Lacking(f"{self.architecture}.{name}", value)
        return value

    def each(self, name: str, count: int, default: int | None = None) -> tuple[int, ...]:
        """One whole number a layer: a list, or one for all. Raises Lacking."""
        value = self.values.get(f"{self.architecture}.{name}")
        if isinstance(value, list | tuple):
            if len(value) < count or not all(type(one) in {int, bool} and one >= 0 for one in value):
                raise Lacking(f"{self.architecture}.{name}", value)
            return tuple(int(one) for one in value[:count])
        return (self.number(name, default),) * count

    def has(self, name: str) -> bool:
        """Whether the header states it."""
        return f"{self.architecture}.{name}" in self.values


def gguf_layers(architecture: str, metadata: Mapping[str, object]) -> tuple[Layer, ...]:
    """The layers. Raises Lacking where a number is missing or the architecture's pattern is not known."""
    keys = Keys(architecture, metadata)
    count = keys.number("block_count") - keys.number("nextn_predict_layers", 0)
    if not 0 < count <= MAX_LAYERS:
        raise Lacking(f"{architecture}.block_count", count)
    heads = keys.each("attention.head_count", count, 0 if architecture in PURE else None)
    kv = keys.each("attention.head_count_kv", count, heads[0])
    windows = _windows(keys, count)
    return tuple(
        Layer(number, _mixers(keys, number, heads[number], kv[number], windows[number]), _mlps(keys, number))
        for number in range(count)
    )


def _windows(keys: Keys, count: int) -> tuple[int, ...]:
    """The window of every layer; 0: full attention."""
    window = keys.number("attention.sliding_window", 0) or keys.number("attention.chunk_size", 0)
    if not window or keys.architecture in NO_WINDOW:
        return (0,) * count
    pattern = keys.values.get(f"{keys.architecture}.attention.sliding_window_pattern")
    if isinstance(pattern, list | tuple):
        marks = keys.each("attention.sliding_window_pattern", count)
        return tuple(window if mark else 0 for mark in marks)
    step = pattern if type(pattern) is int else WINDOWS.get(keys.architecture)
    if step is None:
        raise Lacking(f"{keys.architecture}.attention.sliding_window_pattern")
    return tuple(0 if step and (number + 1) % step == 0 else window for number in range(count))


def _mixers(keys: Keys, number: int, heads: int, kv: int, window: int) -> tuple[Mixer, ...]:
    if keys.architecture in PURE:
        return (_state(keys),)
    if keys.architecture in GATED:
        interval = keys.number("full_attention_interval", 4)
        if (number + 1) % interval:
            return (_gated(keys),)
    if keys.has("attention.kv_lora_rank"):
        return (_latent(keys, heads),)
    if kv == 0:  # such a layer has no attention
        recurrent = keys.architecture in RECURRENT and not _alone(keys, number)
        return (_recurrence(keys),) if recurrent else ()
    attention = _attention(keys, heads, kv, window)
    return (_state(keys), attention) if keys.architecture == "falcon-h1" else (attention,)


def _alone(keys: Keys, number: int) -> bool:
    """Whether the layer is an MLP and nothing else (Nemotron-H)."""
    widths = keys.values.get(f"{keys.architecture}.feed_forward_length")
    if not keys.architecture.startswith("nemotron_h"):
        return False
    if not isinstance(widths, list | tuple) or number >= len(widths):
        raise Lacking(f"{keys.architecture}.feed_forward_length", widths)
    return bool(widths[number])


def _attention(keys: Keys, heads: int, kv: int, window: int) -> Attention:
    if keys.has("attention.key_length"):
        k = keys.number("attention.key_length")
    else:
        width = keys.number("embedding_length")
        if not heads or width % heads:
            raise Lacking(f"{keys.architecture}.attention.key_length")
        k = width // heads
    v = keys.number("attention.value_length", k)
    if window and keys.has("attention.key_length_swa"):
        k = keys.number("attention.key_length_swa")
        v = keys.number("attention.value_length_swa", k)
    span = Span.SLIDING if window else Span.FULL
    return Attention(heads, kv, k, v, span, window or None)


def _latent(keys: Keys, heads: int) -> Latent:
    rank, rope = keys.number("attention.kv_lora_rank"), keys.number("rope.dimension_count")
    whole = keys.number("attention.key_length_mla", keys.number("attention.key_length", rank + rope))
    value = keys.number("attention.value_length_mla", keys.number("attention.value_length", whole))
    query = keys.number("attention.q_lora_rank", 0) or None
    return Latent(heads, rank, rope, max(whole - rope, 0), value, query)


def _recurrence(keys: Keys) -> Recurrent:
    if keys.has("shortconv.l_cache"):
        channels = keys.number("embedding_length")
        return Recurrent(Recurrence.SHORT_CONV, 0, 0, 0, 0, channels, keys.number("shortconv.l_cache"))
    return _state(keys)


def _state(keys: Keys) -> Recurrent:
    inner, state = keys.number("ssm.inner_size"), keys.number("ssm.state_size")
    groups = keys.number("ssm.group_count", 0)
    kind = Recurrence.MAMBA2 if groups else Recurrence.MAMBA1
    return Recurrent(
        kind, inner, 1, state, groups or 1, inner + 2 * groups * state, keys.number("ssm.conv_kernel")
    )


def _gated(keys: Keys) -> Recurrent:
    """Gated delta net, in the keys of state-space models: groups are key heads, ranks are value heads."""
    state, groups = keys.number("ssm.state_size"), keys.number("ssm.group_count")
    inner, heads = keys.number("ssm.inner_size"), keys.number("ssm.time_step_rank")
    if not heads or inner % heads:
        raise Lacking(f"{keys.architecture}.ssm.time_step_rank", heads)
    channels = inner + 2 * groups * state
    return Recurrent(
        Recurrence.GDN, heads, inner // heads, state, groups, channels, keys.number("ssm.conv_kernel")
    )


def _mlps(keys: Keys, number: int) -> tuple[Mlp, ...]:
    experts = keys.number("expert_count", 0)
    if experts and number >= keys.number("leading_dense_block_count", 0):
        width = keys.number(
            "expert_feed_forward_length", keys.each("feed_forward_length", number + 1, 0)[number]
        )
        shared = keys.number(
            "expert_shared_feed_forward_length", width * keys.number("expert_shared_count", 0)
        )
        return (Experts(experts, keys.number("expert_used_count"), width, shared),)
    width = keys.each("feed_forward_length", number + 1, 0)[number]
    return (Dense(width),) if width else ()
