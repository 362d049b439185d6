"""SGLang's memory: pools as its own logs printed them, and the default fraction of every generation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from worlds import GEMMA, HYBRID, LLAMA, V4, gib, request

from canserve.engines.sglang.memory import holds
from canserve.facts import Known, Missing
from canserve.memory.quantity import GIB
from canserve.memory.request import Request, Serving
from canserve.subjects.parallel import Parallel

SMALL = LLAMA | {
    "hidden_size": 1536,
    "num_hidden_layers": 28,
    "num_attention_heads": 12,
    "num_key_value_heads": 2,
    "max_position_embeddings": 32768,
}
"""The cache of Qwen2.5-1.5B."""


def held(asked: Request, *weights: float) -> Serving:
    """The answer, which must be known."""
    found = holds(asked, gib(*weights))
    assert isinstance(found, Known), found
    return found.value


def fixed(config: dict[str, Any], version: str, room: float, **options: Any) -> Serving:
    """What pools of that many GiB hold."""
    return held(request(config, version, {"kv_cache_bytes": int(room * GIB), **options}), 10)


@pytest.mark.parametrize(
    ("dtype", "room", "tokens"),
    [("auto", 41.6, 1557709), ("fp8_e4m3", 41.58, 3113713), ("fp4_e2m1", 41.46, 5519481)],
)
def test_tokens_of_a_plain_model(dtype: str, room: float, tokens: int) -> None:
    """GB10, mem_fraction_static 0.4, Qwen2.5-1.5B: what the log printed of the pool."""
    found = fixed(SMALL, "0.5.12", room, kv_cache_dtype=dtype)
    assert found.kv_tokens.value == pytest.approx(tokens, rel=1e-3)


@pytest.mark.parametrize(("ratio", "room", "tokens"), [(0.03, 8.32, 167877), (0.25, 8.32, 62354)])
def test_windows_have_a_pool_of_their_own(ratio: float, room: float, tokens: int) -> None:
    """RTX 3090, tensor parallel 2, Gemma-4-31B."""
    config = GEMMA | {
        "num_hidden_layers": 60,
        "num_attention_heads": 32,
        "num_key_value_heads": 16,
        "num_global_key_value_heads": 4,
        "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 10,
    }
    options = {"kv_cache_bytes": int(room * GIB), "swa_full_tokens_ratio": ratio}
    asked = request(config, "0.5.12", options, Parallel(tp=2), on="rtx-4090")
    assert held(asked, 11, 11).kv_tokens.value == pytest.approx(tokens, rel=2e-3)


def test_architectures_that_are_not_listed_keep_windows_whole() -> None:
    apart, whole = fixed(GEMMA, "0.5.12", 10), fixed(GEMMA, "0.5.9", 10)
    assert apart.kv_tokens.value > whole.kv_tokens.value
    assert fixed(GEMMA, "0.5.12", 10, disable_hybrid_swa_memory=True).kv_tokens == whole.kv_tokens


def test_recurrent_state_takes_its_share() -> None:
    found = fixed(HYBRID, "0.5.12", 20, context_length=32768)
    state = 48 * (48 * 128 * 128 * 4 + 10240 * 3 * 2)
    assert found.state_bytes_per_sequence == state
    assert found.kv_tokens.value == pytest.approx(20 * GIB / 1.9 / (16 * 4096), rel=0.01)
    given = fixed(HYBRID, "0.5.12", 20, max_mamba_cache_size=10)
    assert given.kv_tokens.value == int((20 * GIB - 10 * state) // (16 * 4096))


@pytest.mark.parametrize(
    ("version", "tp", "on", "fraction"),
    [
        ("0.4.1", 1, "h100", 0.88),
        ("0.4.1", 8, "h100", 0.81),
        ("0.4.6", 1, "h200", (143155 - 13312) / 143155),
        ("0.5.2", 1, "h100", (81091 - 10 * 1024) / 81091),
        ("0.5.2", 8, "h100", (81091 - 13.5 * 1024) / 81091),
        ("0.5.6", 1, "l4", (22559 - 512 - 1.5 * 2048 - 2 * 24 - 128) / 22559),
        ("0.5.6", 1, "h100", (81091 - 512 - 1.5 * 8192 - 2 * 256 - 128) / 81091),
        ("0.5.6", 8, "b200", (182630 - 512 - 1.5 * 16384 - 2 * 512 - 8 * 128) / 182630),
    ],
)
def test_the_default_fraction(version: str, tp: int, on: str, fraction: float) -> None:
    asked = request(LLAMA, version, {}, Parallel(tp=tp), on)
    memory = held(asked, *([15 / tp] * tp)).ranks[0]
    free = memory.total.value - memory.non_torch.value
    assert memory.budget.value / free == pytest.approx(fraction, abs=0.001)


def test_the_fraction_is_of_what_is_free() -> None:
    memory = held(request(LLAMA, "0.5.12", {"mem_fraction_static": 0.8}), 15).ranks[0]
    assert memory.kv_available.value == pytest.approx(memory.budget.value - 15 * GIB)


def test_it_starts_with_a_context_that_does_not_fit() -> None:
    found = fixed(LLAMA, "0.5.12", 1)
    assert not found.refuses
    assert found.max_context.value < found.context


def test_attention_of_replicas_keeps_all_heads() -> None:
    options = {"enable_dp_attention": True, "dp_size": 8}
    asked = request(LLAMA, "0.5.12", options, Parallel(tp=8))
    assert held(asked, *([2] * 8)).kv_bytes_per_token == 131072


@pytest.mark.parametrize(
    ("version", "options"),
    [
        ("0.3.0", {}),
        ("main", {}),
        ("0.5.12", {"mem_fraction_static": 2}),
        ("0.5.12", {"kv_cache_dtype": "fp3"}),
        ("0.5.12", {"swa_full_tokens_ratio": "x"}),
    ],
)
def test_what_nobody_can_tell_is_missing(version: str, options: dict[str, Any]) -> None:
    assert isinstance(holds(request(LLAMA, version, options), gib(15)), Missing)


@pytest.mark.parametrize(
    "options",
    [
        {"mamba_full_memory_ratio": "abc"},
        {"mamba_full_memory_ratio": -1},
        {"mamba_full_memory_ratio": "inf"},
        {"mamba_full_memory_ratio": True},
        {"json_model_override_args": '{"num_hidden_layers": 2}'},
        {"lora_paths": ["a"]},
    ],
)
def test_options_that_are_none_or_not_followed_are_named(options: dict[str, Any]) -> None:
    found = holds(request(LLAMA, "0.5.9", options), gib(15))
    assert isinstance(found, Missing) and next(iter(options)) in found.why


def test_a_total_that_is_not_sure_makes_nothing_negative() -> None:
    asked = request(LLAMA, "0.5.9")
    unsure = replace(asked.devices[0], total_low=60 * GIB, total_high=90 * GIB)
    (rank,) = held(replace(asked, devices=(unsure,)), 15).ranks
    assert 0 < rank.non_torch.low <= rank.non_torch.high < GIB * 2


def test_early_releases_do_not_serve_recurrent_models() -> None:
    assert isinstance(holds(request(HYBRID, "0.4.9"), gib(15)), Missing)


@pytest.mark.parametrize(
    ("version", "tokens", "drafting"),
    [
        ("0.5.12", 4037632, 2470912),
        ("0.5.15", 7948032, 6334208),
        ("0.5.20", 7948032, 6334208),
        ("0.5.23", 10777088, None),
    ],
)
def test_pools_of_a_compressed_cache(version: str, tokens: int, drafting: int | None) -> None:
    """What DSV4PoolConfigurator of these releases gives for 60 GiB."""
    assert fixed(V4, version, 60, chunked_prefill_size=8192).kv_tokens.value == tokens
    asked = request(V4, version, {"kv_cache_bytes": 60 * GIB, "speculative_algorithm": "EAGLE"})
    found = holds(asked, gib(10))
    assert (found.value.kv_tokens.value if isinstance(found, Known) else None) == drafting


def test_blackwell_stores_a_compressed_cache_in_fewer_bytes() -> None:
    asked = request(V4, "0.5.23", {"kv_cache_bytes": 60 * GIB, "chunked_prefill_size": 8192}, on="b200")
    assert held(asked, 10).kv_tokens.value == 12145920


def test_a_compressed_cache_needs_a_release_that_knows_it() -> None:
    found = holds(request(V4, "0.5.11", {}), gib(10))
    assert isinstance(found, Missing) and "compressed" in found.why


def test_running_sequences_take_from_the_pool_of_a_compressed_cache() -> None:
    few, many = (fixed(V4, "0.5.15", 60, max_running_requests=n) for n in (64, 512))
    assert few.kv_tokens.value > many.kv_tokens.value
    asked = fixed(V4, "0.5.23", 60, swa_full_tokens_ratio=0.1)
    assert asked.kv_tokens.value < fixed(V4, "0.5.23", 60).kv_tokens.value
