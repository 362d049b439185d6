"""What layers a config describes: every dialect, and nothing where a number is missing."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from canserve.memory.fields import Lacking
from canserve.memory.layers import read_layers
from canserve.memory.layers.kinds import (
    Attention,
    Compressed,
    Dense,
    Experts,
    Latent,
    Recurrence,
    Recurrent,
    Span,
)

DENSE = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 1000,
}


FOUR_EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 1}


def spans(config: dict[str, Any]) -> str:
    """One letter a layer."""
    letters = []
    for layer in read_layers(config):
        for mixer in layer.mixers or (None,):
            match mixer:
                case Attention(span=span):
                    letters.append(span.value[0])
                case Recurrent():
                    letters.append("r")
                case Latent():
                    letters.append("l")
                case Compressed():
                    letters.append("C")
                case None:
                    letters.append("-")
    return "".join(letters)


def test_a_plain_decoder() -> None:
    first = read_layers(DENSE)[0]
    assert first.mixers == (Attention(4, 2, 16, 16),)
    assert first.mlps == (Dense(128),)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"layer_types": ["sliding_attention", "full_attention"] * 2, "sliding_window": 8}, "sfsf"),
        ({"model_type": "mistral", "sliding_window": 8}, "ssss"),
        ({"model_type": "mistral", "sliding_window": None}, "ffff"),
        ({"model_type": "qwen2", "sliding_window": 8, "use_sliding_window": False}, "ffff"),
        ({"model_type": "qwen2", "sliding_window": 8, "use_sliding_window": True, "max_window_layers": 2}, "ffss"),
        ({"model_type": "gemma2", "head_dim": 16, "sliding_window": 8}, "sfsf"),
        ({"model_type": "cohere2", "sliding_window": 8, "sliding_window_pattern": 2}, "sfsf"),
        ({"model_type": "exaone4", "sliding_window": 8, "sliding_window_pattern": "LLG"}, "ssfs"),
        ({"model_type": "llama4", "attention_chunk_size": 8, "intermediate_size_mlp": 256, **FOUR_EXPERTS}, "cccf"),
        (
            {
                "model_type": "llama4",
                "attention_chunk_size": 8,
                "no_rope_layers": [1, 0, 1, 0],
                "intermediate_size_mlp": 256,
                **FOUR_EXPERTS,
            },
            "cfcf",
        ),
    ],
)  # fmt: skip
def test_dialects_of_attention(changes: dict[str, Any], expected: str) -> None:
    assert spans(DENSE | changes) == expected


def test_jamba_has_attention_once_a_period() -> None:
    config = DENSE | {
        "model_type": "jamba", "attn_layer_period": 4, "attn_layer_offset": 2, "mamba_expand": 2,
        "mamba_d_state": 16, "mamba_d_conv": 4, "num_experts": 4, "num_experts_per_tok": 2,
        "expert_layer_period": 2, "expert_layer_offset": 1,
    }  # fmt: skip
    assert spans(config) == "rrfr"
    read = read_layers(config)
    assert isinstance(read[1].mlps[0], Experts)
    assert isinstance(read[0].mlps[0], Dense)


def test_layers_of_nemotron_h_are_mixer_or_mlp() -> None:
    config = DENSE | {
        "model_type": "nemotron_h", "hybrid_override_pattern": "M-*E", "head_dim": 16, "mamba_num_heads": 4,
        "mamba_head_dim": 8, "ssm_state_size": 16, "n_groups": 2, "conv_kernel": 4, "n_routed_experts": 8,
        "num_experts_per_tok": 2, "moe_intermediate_size": 32, "n_shared_experts": 0,
    }  # fmt: skip
    assert spans(config) == "r-f-"
    state = read_layers(config)[0].mixers[0]
    assert isinstance(state, Recurrent)
    assert (state.kind, state.conv_channels) == (Recurrence.MAMBA2, 4 * 8 + 2 * 2 * 16)


def test_the_last_layers_share_the_cache_of_the_last_of_their_kind() -> None:
    config = DENSE | {
        "model_type": "gemma3n", "head_dim": 16, "sliding_window": 8, "num_kv_shared_layers": 2,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
    }  # fmt: skip
    shares = [
        layer.mixers[0].shares for layer in read_layers(config) if isinstance(layer.mixers[0], Attention)
    ]
    assert shares == [None, None, 0, 1]


@pytest.mark.parametrize(
    ("removed", "field"),
    [
        ("num_hidden_layers", "num_hidden_layers"),
        ("num_attention_heads", "num_attention_heads"),
        ("intermediate_size", "intermediate_size"),
        ("model_type", "model_type"),
    ],
)
def test_a_missing_number_is_named(removed: str, field: str) -> None:
    config = {key: value for key, value in DENSE.items() if key != removed}
    with pytest.raises(Lacking) as caught:
        read_layers(config)
    assert caught.value.field == field


@pytest.mark.parametrize(
    "changes",
    [
        {"model_type": "never_heard_of"},
        {"model_type": "qwen3"},
        {"model_type": "mixtral", "num_key_value_heads": None},
        {"layer_types": ["a_new_kind"] * 4},
        {"layer_types": ["full_attention"]},
        {"num_hidden_layers": 10**9},
        {"num_attention_heads": "many"},
        {"num_attention_heads": 0},
        {"num_key_value_heads": 0},
        {"text_config": {"model_type": "llama"}},
    ],
)
def test_nothing_is_guessed(changes: dict[str, Any]) -> None:
    with pytest.raises(Lacking):
        read_layers(DENSE | changes)


def test_real_configs(shared: Path) -> None:
    """Counts of each kind, from the models' own descriptions."""
    expected = {
        "Qwen__Qwen3.5-122B-A10B-FP8": {"gated delta net": 36, "full": 12},
        "google__gemma-3-27b-it": {"sliding": 52, "full": 10},
        "google__gemma-4-26B-A4B": {"sliding": 25, "full": 5},
        "openai__gpt-oss-20b": {"sliding": 12, "full": 12},
        "nvidia__NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": {"mamba2": 23, "full": 6},
        "moonshotai__Kimi-K3": {"kimi delta attention": 69, "Latent": 24},
        "deepseek-ai__DeepSeek-V4-Flash": {"Compressed": 43},
        "meta-llama__Llama-4-Scout-17B-16E-Instruct": {"chunked": 36, "full": 12},
        "nvidia__Llama-3_3-Nemotron-Super-49B-v1": {"full": 49},
    }
    for name, kinds in expected.items():
        config = json.loads((shared / "models" / name / "config.json").read_text())
        found = Counter(_kind(mixer) for layer in read_layers(config) for mixer in layer.mixers)
        assert found == kinds, name


def _kind(mixer: object) -> str:
    match mixer:
        case Attention(span=span):
            return span.value
        case Recurrent(kind=kind):
            return kind.value
        case _:
            return type(mixer).__name__


def test_every_shared_config_is_read_or_lacks_a_named_field(shared: Path) -> None:
    lacking = {}
    for path in sorted((shared / "models").glob("*/config.json")):
        try:
            assert read_layers(json.loads(path.read_text()))
        except Lacking as lack:
            lacking[path.parent.name] = lack.field
    # Another program's field names, which state no model type.
    assert {name for name in lacking if not name.endswith(".maxtext")} == set()
    assert set(lacking.values()) == {"model_type"}


def test_spans_have_windows() -> None:
    window = read_layers(DENSE | {"model_type": "mistral", "sliding_window": 8})[0].mixers[0]
    assert isinstance(window, Attention)
    assert (window.span, window.window) == (Span.SLIDING, 8)


@pytest.mark.parametrize(
    ("folder", "field"),
    [
        ("deepseek-ai__DeepSeek-V3", "n_routed_experts"),
        ("deepseek-ai__DeepSeek-V3", "kv_lora_rank"),
        ("deepseek-ai__DeepSeek-V3", "q_lora_rank"),
        ("deepseek-ai__DeepSeek-V3", "first_k_dense_replace"),
        ("deepseek-ai__DeepSeek-V3", "n_shared_experts"),
        ("zai-org__GLM-5.2", "n_routed_experts"),
        ("Qwen__Qwen3-30B-A3B", "num_experts"),
        ("Qwen__Qwen3.5-35B-A3B", "text_config.shared_expert_intermediate_size"),
        ("mistralai__Mixtral-8x7B-v0.1", "num_local_experts"),
        ("openai__gpt-oss-20b", "num_local_experts"),
        ("nvidia__NVIDIA-Nemotron-3-Super-120B-A12B-FP8", "mamba_head_dim"),
        ("nvidia__NVIDIA-Nemotron-3-Super-120B-A12B-FP8", "hybrid_override_pattern"),
        ("moonshotai__Kimi-K3", "text_config.num_experts"),
        ("moonshotai__Kimi-K3", "text_config.linear_attn_config"),
        ("google__gemma-4-26B-A4B", "text_config.global_head_dim"),
        ("google__gemma-4-26B-A4B", "text_config.enable_moe_block"),
        ("google__gemma-4-26B-A4B", "text_config.num_experts"),
        ("nvidia__NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "moe_shared_expert_intermediate_size"),
        ("XiaomiMiMo__MiMo-V2-Flash", "swa_head_dim"),
        ("XiaomiMiMo__MiMo-V2-Flash", "hybrid_layer_pattern"),
        ("MiniMaxAI__MiniMax-M3", "dense_intermediate_size"),
        ("stepfun-ai__Step-3.7-Flash", "first_k_dense_replace"),
    ],
)
def test_a_config_that_lacks_what_makes_it_special_is_not_read_as_an_ordinary_one(
    shared: Path, folder: str, field: str
) -> None:
    config = json.loads((shared / "models" / folder / "config.json").read_text())
    assert read_layers(config)
    *outer, name = field.split(".")
    place = config
    for key in outer:
        place = place[key]
    del place[name]
    with pytest.raises(Lacking) as lack:
        read_layers(config)
    assert lack.value.field == field
