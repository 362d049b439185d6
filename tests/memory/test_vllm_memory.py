"""vLLM's memory: what its own logs printed for these shapes, release by release."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from worlds import GEMMA, HYBRID, LATENT, LLAMA, NEMOTRON, V4, gib, model, request

from canserve.engines import engine_named
from canserve.engines.vllm.memory import serving
from canserve.facts import Known, Missing
from canserve.memory.quantity import GIB
from canserve.memory.request import Request, Serving
from canserve.subjects.model import NOT_READ
from canserve.subjects.parallel import Parallel


def held(asked: Request, *weights: float) -> Serving:
    """The answer, which must be known."""
    found = serving(asked, gib(*weights))
    assert isinstance(found, Known), found
    return found.value


def fixed(config: dict[str, Any], version: str, room: float, **options: Any) -> Serving:
    """What a pool of that many GiB holds."""
    return held(request(config, version, {"kv_cache_memory_bytes": int(room * GIB), **options}), 10)


def test_tokens_of_a_plain_model() -> None:
    """H200, 0.25.1: 111.61 GiB printed 914,304 tokens."""
    found = fixed(LLAMA, "0.25.1", 111.61, max_model_len=32768)
    assert found.kv_tokens.value == pytest.approx(914304, rel=1e-4)
    assert found.kv_bytes_per_token == 131072
    assert found.block == 16
    assert found.state_bytes_per_sequence == 0


def test_fp8_halves_a_token() -> None:
    assert fixed(LLAMA, "0.25.1", 50, kv_cache_dtype="fp8").kv_bytes_per_token == 65536


def test_heads_are_repeated_once_ranks_are_more() -> None:
    asked = request(LLAMA, "0.19.0", {}, Parallel(tp=16))
    assert held(asked, *([1] * 16)).kv_bytes_per_token == 32 * 1 * 256 * 2


def test_recurrent_state_lengthens_the_blocks_of_attention() -> None:
    """H200, 0.25.1, Qwen3.5-27B: 73.54 GiB printed 1,177,348 tokens and 8.98 sequences; blocks of 784."""
    found = fixed(HYBRID, "0.25.1", 73.54, max_model_len=131072)
    assert found.block == 784
    assert found.kv_tokens.value == pytest.approx(1177348, rel=1e-3)
    assert found.max_concurrency.value == pytest.approx(8.98, abs=0.01)


def test_prefix_caching_keeps_a_second_state() -> None:
    """Off by default for models with recurrent state until 0.27.1, though 0.26.0 can."""
    one, off = (fixed(HYBRID, version, 40, max_model_len=8192) for version in ("0.25.1", "0.27.1"))
    assert one.max_concurrency.value == off.max_concurrency.value
    two = fixed(HYBRID, "0.28.0", 40, max_model_len=8192)
    assert two.max_concurrency.value < one.max_concurrency.value
    asked = fixed(HYBRID, "0.27.1", 40, max_model_len=8192, enable_prefix_caching=True)
    assert two.max_concurrency.value == asked.max_concurrency.value
    none = fixed(HYBRID, "0.28.0", 40, max_model_len=8192, enable_prefix_caching=False)
    assert none.max_concurrency.value == one.max_concurrency.value


def test_a_state_to_go_on_from_is_a_third_one() -> None:
    """Gated delta nets, 0.33.0: FlashInfer's prefill on Hopper gives it."""
    two, three = (fixed(HYBRID, version, 40, max_model_len=8192) for version in ("0.32.0", "0.33.0"))
    assert three.max_concurrency.value < two.max_concurrency.value
    old = held(request(HYBRID, "0.33.0", {"max_model_len": 8192}, on="a100"), 10)
    assert old.state_bytes_per_sequence < three.state_bytes_per_sequence


def test_a_state_for_every_block() -> None:
    """0.25.1's own get_kv_cache_groups and get_max_concurrency_for_kv_cache_config, for 40 GiB."""
    found = fixed(NEMOTRON, "0.25.1", 40, max_model_len=32768, enable_prefix_caching=True)
    assert found.max_concurrency.value == pytest.approx(40.15, rel=1e-9)
    kept = fixed(NEMOTRON, "0.28.0", 40, max_model_len=32768)
    assert kept.max_concurrency.value > found.max_concurrency.value
    asked = serving(request(NEMOTRON, "0.32.0", {"mamba_cache_mode": "all"}), gib(10))
    assert isinstance(asked, Missing) and "mamba_cache_mode" in asked.why


def test_layers_of_two_page_sizes_share_the_pool() -> None:
    """GB10, 0.20.0, Gemma-4-26B: 40.61 GiB printed 177,440 tokens and 35.75 sequences of 8,192."""
    found = fixed(GEMMA, "0.20.0", 40.61, max_model_len=8192, max_num_batched_tokens=4096)
    assert found.kv_tokens.value == pytest.approx(177440, rel=1e-3)
    assert found.max_concurrency.value == pytest.approx(35.75, rel=1e-3)


def test_the_printed_figure_changes_with_the_release() -> None:
    before = fixed(GEMMA, "0.20.0", 40.61, max_model_len=8192)
    after = fixed(GEMMA, "0.20.1", 40.61, max_model_len=8192)
    assert after.kv_tokens.value == int(after.max_concurrency.value * 8192)
    assert after.kv_tokens.value != before.kv_tokens.value


def test_releases_that_cannot_pad_refuse_uneven_pages() -> None:
    odd = GEMMA | {"num_global_key_value_heads": 3}
    assert isinstance(serving(request(odd, "0.19.0"), gib(10)), Missing)
    assert isinstance(serving(request(odd, "0.24.0"), gib(10)), Known)
    assert isinstance(serving(request(GEMMA, "0.11.0"), gib(10)), Missing)


@pytest.mark.parametrize(
    ("version", "utilization"),
    [("0.19.1", 0.9), ("0.20.0", 0.92), ("0.20.0.dev7+gabc", 0.92), ("0.99.0", 0.92)],
)
def test_the_default_utilisation_is_the_releases_own(version: str, utilization: float) -> None:
    memory = held(request(LLAMA, version), 15).ranks[0]
    assert memory.budget.value == pytest.approx(memory.total.value * utilization)


def test_the_estimate_of_graphs_is_taken_off_from_0_20() -> None:
    options = {"gpu_memory_utilization": 0.9}
    before, after = (held(request(LLAMA, version, options), 15).ranks[0] for version in ("0.19.0", "0.20.0"))
    assert before.kv_available.value > after.kv_available.value
    eager = held(request(LLAMA, "0.20.0", options | {"enforce_eager": True}), 15).ranks[0]
    assert eager.graphs.value == 0
    assert eager.kv_available.value > after.kv_available.value


def test_what_h100_logs_print_lies_inside() -> None:
    """0.19.0 at 0.95, 8,192 tokens, 1,024 sequences, of the shapes of Llama-3.1-8B in 4 bits (L056)."""
    options = {"gpu_memory_utilization": 0.95, "max_num_seqs": 1024, "max_num_batched_tokens": 8192}
    memory = held(request(LLAMA, "0.19.0", options), 5.38).ranks[0]
    assert memory.activation.low <= 1.89 * GIB <= memory.activation.high
    assert memory.activation.value == pytest.approx(1.89 * GIB, rel=0.05)
    assert memory.kv_available.low <= 67.71 * GIB <= memory.kv_available.high


def test_too_much_weight_leaves_a_negative_room() -> None:
    found = held(request(LLAMA, "0.25.1"), 90)
    assert found.ranks[0].kv_available.high < 0
    assert found.max_context.value == 0


def test_a_long_context_is_cut_to_what_fits() -> None:
    found = fixed(LLAMA, "0.25.1", 1, max_model_len=131072)
    assert found.max_context.value == GIB // 131072
    assert found.max_concurrency.value < 1


def test_unified_memory_is_not_sure_to_start_at_a_high_utilisation() -> None:
    high = held(request(LLAMA, "0.25.1", {"gpu_memory_utilization": 0.95}, on="dgx-spark"), 15)
    assert high.starts.low < 0
    assert any("0.85" in note for note in high.notes)
    low = held(request(LLAMA, "0.25.1", {"gpu_memory_utilization": 0.7}, on="dgx-spark"), 15)
    assert low.starts.low > 0


def test_state_slots_bound_the_sequences_of_a_hybrid() -> None:
    found = fixed(HYBRID, "0.25.1", 20, max_model_len=8192, max_num_seqs=1024)
    assert found.state_slots is not None
    assert found.state_slots.value < found.sequences == 1024
    assert fixed(LLAMA, "0.25.1", 20).state_slots is None


def test_drafted_layers_keep_a_cache_and_lengthen_the_state() -> None:
    speculative = {"speculative_config": {"method": "mtp", "num_speculative_tokens": 3}}
    plain, drafting = fixed(HYBRID, "0.25.1", 40), fixed(HYBRID, "0.25.1", 40, **speculative)
    assert drafting.kv_bytes_per_token > plain.kv_bytes_per_token
    assert drafting.block > plain.block


def test_stages_hold_their_own_layers() -> None:
    asked = request(LLAMA, "0.25.1", {"gpu_memory_utilization": 0.9}, Parallel(pp=2))
    whole = request(LLAMA, "0.25.1", {"gpu_memory_utilization": 0.9})
    assert held(asked, 8, 8).kv_bytes_per_token * 2 == held(whole, 15).kv_bytes_per_token


@pytest.mark.parametrize(
    ("config", "options", "words"),
    [
        (
            {key: value for key, value in LLAMA.items() if key != "num_attention_heads"},
            {},
            "num_attention_heads",
        ),
        (
            {key: value for key, value in LLAMA.items() if key != "max_position_embeddings"},
            {},
            "max_position",
        ),
        (LLAMA, {"gpu_memory_utilization": "much"}, "gpu_memory_utilization"),
        (LLAMA, {"max_num_seqs": 0}, "max_num_seqs"),
        (LLAMA, {"max_num_seqs": 1e30}, "max_num_seqs"),
        (LLAMA, {"max_num_seqs": 256, "max_num_batched_tokens": 255}, "at most the 255"),
        (LLAMA, {"max_num_seqs": 10_000}, "at most the 8192"),
        (LLAMA, {"hf_overrides": {"num_hidden_layers": 2}}, "hf_overrides changes the model's config"),
        (LLAMA, {"cpu_offload_gb": 50}, "cpu_offload_gb keeps weights in the host's memory"),
        (LLAMA, {"enable_lora": True}, "enable_lora takes memory for adapters"),
        (LLAMA, {"kv_cache_dtype": "fp3"}, "kv_cache_dtype"),
        (LLAMA, {"speculative_config": "{"}, "speculative_config"),
        (LLAMA, {"compilation_config": {"cudagraph_capture_sizes": [-1]}}, "cudagraph_capture_sizes"),
    ],
)
def test_what_is_missing_is_named(config: dict[str, Any], options: dict[str, Any], words: str) -> None:
    found = serving(request(config, "0.25.1", options), gib(10))
    assert isinstance(found, Missing)
    assert words in found.why


@pytest.mark.parametrize("version", ["nightly", "0.1.dev1+gda1daf40b"])
def test_a_release_that_nobody_can_tell_is_unknown(version: str) -> None:
    assert isinstance(serving(request(LLAMA, version), gib(10)), Missing)


def test_as_many_sequences_as_tokens_of_a_step_may_run() -> None:
    assert (
        held(request(LLAMA, "0.25.1", {"max_num_seqs": 256, "max_num_batched_tokens": 256}), 15).sequences
        == 256
    )
    assert held(request(LLAMA, "0.25.1", {"max_num_batched_tokens": 16}), 15).sequences == 16


def test_what_is_switched_off_changes_nothing() -> None:
    off = {"cpu_offload_gb": 0, "hf_overrides": {}, "enable_lora": False, "enable_eplb": "false"}
    assert held(request(LLAMA, "0.25.1", off), 15) == held(request(LLAMA, "0.25.1"), 15)


def test_options_may_come_as_text() -> None:
    text = {"gpu_memory_utilization": "0.8", "enforce_eager": "true", "max_model_len": "32k"}
    values = {"gpu_memory_utilization": 0.8, "enforce_eager": True, "max_model_len": 32000}
    assert held(request(LLAMA, "0.25.1", text), 15) == held(request(LLAMA, "0.25.1", values), 15)


def test_the_engine_answers_it() -> None:
    engine = engine_named("vllm")
    assert engine is not None
    assert isinstance(engine.memory(request(LLAMA, "0.25.1"), gib(15)), Known)


def test_a_model_without_config_stays_missing() -> None:
    asked = request(LLAMA, "0.25.1")
    gone = replace(asked, model=replace(model(LLAMA), config=NOT_READ))
    assert isinstance(serving(gone, gib(15)), Missing)


@pytest.mark.parametrize(
    ("version", "blocks", "sequences"),
    [
        ("0.22.1", 51044, 7.224911535739561),
        ("0.23.0", 51638, 7.30898796886058),
        ("0.26.0", 51638, 5.157095775491861),
        ("0.27.0", 53567, 4.970031545741325),
        ("0.32.0", 53567, 4.970031545741325),
    ],
)
def test_a_compressed_cache_is_packed(version: str, blocks: int, sequences: float) -> None:
    """What get_kv_cache_groups and get_max_concurrency_for_kv_cache_config of these releases give for 50 GiB."""
    found = fixed(V4, version, 50, max_num_batched_tokens=8192, kv_cache_dtype="fp8")
    assert found.max_concurrency.value == pytest.approx(sequences, rel=1e-9)
    by_hand = fixed(
        V4, version, 1, num_gpu_blocks_override=blocks, max_num_batched_tokens=8192, kv_cache_dtype="fp8"
    )
    assert by_hand.max_concurrency.value == pytest.approx(sequences, rel=1e-9)


def test_a_compressed_cache_is_kept_in_fp8_alone() -> None:
    """Until 0.29.0 an assertion refuses ``auto``; from 0.30.0 it is fp8. bfloat16 is refused in all."""
    for version, options in (("0.29.0", {}), ("0.33.0", {"kv_cache_dtype": "bfloat16"})):
        found = serving(request(V4, version, options), gib(10))
        assert isinstance(found, Missing) and "kv_cache_dtype" in found.why
    assert fixed(V4, "0.30.0", 50).kv_bytes_per_token == (21 * (37440 + 8640) + 20 * 1728) // 256


def test_a_later_release_says_so() -> None:
    assert not fixed(LLAMA, "0.33.0", 50).notes
    assert "0.33.0" in " ".join(fixed(LLAMA, "0.40.0", 50).notes)


def test_a_compressed_cache_needs_a_release_that_knows_it() -> None:
    found = serving(request(V4, "0.19.1", {"kv_cache_dtype": "fp8"}), gib(10))
    assert isinstance(found, Missing) and "compressed" in found.why


def test_the_last_stage_holds_what_the_others_do_not() -> None:
    """Each stage's block is as large as the largest part of a group on it."""
    whole = fixed(V4, "0.27.0", 50, kv_cache_dtype="fp8")
    asked = request(V4, "0.27.0", {"kv_cache_dtype": "fp8"}, Parallel(pp=2))
    assert held(asked, 10, 10).kv_bytes_per_token < whole.kv_bytes_per_token


def used(config: dict[str, Any], version: str, tp: int = 1, **options: Any) -> float:
    """Expected activation of the first rank, in bytes."""
    asked = request(
        config, version, {"max_num_batched_tokens": 4096, "max_num_seqs": 64, **options}, Parallel(tp=tp)
    )
    return held(asked, *([1] * tp)).ranks[0].activation.value


def test_the_profile_run_projects_a_latent_context_up() -> None:
    """65,536 tokens of keys and values on every head of the rank, from 0.11.0 on."""
    before, since = (used(LATENT, version, max_model_len=65536) for version in ("0.10.2", "0.11.0"))
    assert since - before == pytest.approx(65536 * 128 * (128 + 128) * 2, rel=0.02)
    halved = used(LATENT, "0.11.0", tp=2, max_model_len=65536) - used(
        LATENT, "0.10.2", tp=2, max_model_len=65536
    )
    assert halved == pytest.approx((since - before) / 2, rel=0.05)


def test_a_short_context_is_all_that_is_projected_up() -> None:
    short = used(LATENT, "0.11.0", max_model_len=2048) - used(LATENT, "0.10.2", max_model_len=2048)
    assert short == pytest.approx(8 * 2048 * 128 * 256 * 2, rel=0.02)


def test_sparse_latent_attention_projects_no_context_up() -> None:
    sparse = {**LATENT, "index_n_heads": 64, "index_head_dim": 128, "index_topk": 2048}
    sparse |= {"model_type": "deepseek_v32", "architectures": ["DeepseekV32ForCausalLM"]}
    assert used(LATENT, "0.14.0") - used(sparse, "0.14.0") > 3 * GIB


def test_graphs_of_latent_attention_grow_with_its_heads() -> None:
    """DeepSeek-V3 of 9 layers, H200, 0.25.1: 8.47 GiB at 128 heads, 4.33 at 64; a plain model of 9 layers under 1."""
    for tp, printed in ((1, 8.47), (2, 4.33)):
        graphs = held(request(LATENT, "0.25.1", {}, Parallel(tp=tp)), *([35] * tp)).ranks[0].graphs
        assert graphs.low / GIB <= printed <= graphs.high / GIB
    plain = held(request({**LLAMA, "num_hidden_layers": 9}, "0.25.1", {}), 5).ranks[0].graphs
    assert plain.value < GIB


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"speculative_config": {"method": "eagle3", "model": "draft", "num_speculative_tokens": 3}},
            "draft",
        ),
        ({"speculative_config": '{"model": "draft"}'}, "draft model"),
        ({"speculative_config": "{"}, "is not JSON"),
        ({"block_size": 7}, "multiples of 8"),
    ],
)
def test_what_is_not_followed_is_unknown(options: dict[str, Any], words: str) -> None:
    found = serving(request(LLAMA, "0.25.1", options), gib(15))
    assert isinstance(found, Missing) and words in found.why
    for fine in (
        {"speculative_config": {"method": "ngram", "num_speculative_tokens": 3}},
        {"block_size": 32},
    ):
        assert isinstance(serving(request(LLAMA, "0.25.1", fine), gib(15)), Known)
