"""llama.cpp's memory: a cache for the whole context, from a config or from a GGUF header."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from worlds import GEMMA, HYBRID, LLAMA, gib, model, request

from canserve.engines.llamacpp.memory import holds
from canserve.facts import Known, Missing
from canserve.memory.fields import Lacking
from canserve.memory.layers.gguf import gguf_layers
from canserve.memory.layers.kinds import Attention, Recurrent
from canserve.memory.quantity import GIB
from canserve.memory.request import Request, Serving
from canserve.subjects.model import NOT_READ
from canserve.subjects.parallel import Parallel

HEADER: dict[str, object] = {
    "general.architecture": "llama",
    "llama.block_count": 32,
    "llama.embedding_length": 4096,
    "llama.feed_forward_length": 14336,
    "llama.attention.head_count": 32,
    "llama.attention.head_count_kv": 8,
    "llama.vocab_size": 128256,
}
GATED: dict[str, object] = {
    "qwen35.block_count": 8,
    "qwen35.embedding_length": 5120,
    "qwen35.feed_forward_length": 17408,
    "qwen35.attention.head_count": 24,
    "qwen35.attention.head_count_kv": 4,
    "qwen35.attention.key_length": 256,
    "qwen35.attention.value_length": 256,
    "qwen35.ssm.conv_kernel": 4,
    "qwen35.ssm.state_size": 128,
    "qwen35.ssm.group_count": 16,
    "qwen35.ssm.time_step_rank": 48,
    "qwen35.ssm.inner_size": 6144,
}


def held(asked: Request, *weights: float) -> Serving:
    """The answer, which must be known."""
    found = holds(asked, gib(*weights))
    assert isinstance(found, Known), found
    return found.value


def test_the_cache_is_the_whole_context() -> None:
    found = held(request(LLAMA, "0.3.36", {"ctx_size": 8192, "parallel": 1}), 15)
    assert found.kv_tokens.value == 8192
    assert found.kv_bytes_per_token == 131072
    rank = found.ranks[0]
    assert found.starts.value == pytest.approx(rank.kv_available.value - 8192 * 131072)


@pytest.mark.parametrize(
    ("kind", "bytes_of_a_token"), [("q8_0", 131072 * 34 // 64), ("q4_0", 131072 * 18 // 64)]
)
def test_cache_types(kind: str, bytes_of_a_token: int) -> None:
    options = {"ctx_size": 8192, "cache_type_k": kind, "cache_type_v": kind}
    assert held(request(LLAMA, "0.3.36", options), 15).kv_bytes_per_token == bytes_of_a_token


@pytest.mark.parametrize(
    ("version", "cells", "sequences"),
    [("0.2.50", 512, 1), ("0.3.1", 131072, 1), ("0.3.8", 4096, 1), ("0.3.36", 131072, 4)],
)
def test_defaults_change_with_the_release(version: str, cells: int, sequences: int) -> None:
    found = held(request(LLAMA, version), 15)
    assert found.kv_tokens.value == cells
    assert found.sequences == sequences


def test_windows_are_cut_from_0_3_10() -> None:
    whole, cut = (held(request(GEMMA, version, {"ctx_size": 65536}), 15) for version in ("0.3.9", "0.3.36"))
    assert whole.kv_bytes_per_token > cut.kv_bytes_per_token
    assert whole.starts.value < cut.starts.value
    full = held(request(GEMMA, "0.3.36", {"ctx_size": 65536, "swa_full": True}), 15)
    assert full.kv_bytes_per_token == whole.kv_bytes_per_token


def test_state_is_kept_for_every_sequence() -> None:
    found = held(request(HYBRID, "0.3.36", {"ctx_size": 8192, "parallel": 4}), 50)
    assert found.state_bytes_per_sequence == 48 * 4 * (48 * 128 * 128 + 10240 * 3)
    assert found.context == 2048
    shared = held(request(HYBRID, "0.3.36", {"ctx_size": 8192, "parallel": 4, "kv_unified": True}), 50)
    assert shared.context == 8192


def test_several_accelerators_get_whole_layers() -> None:
    asked = request(LLAMA, "0.3.36", {"ctx_size": 8192}, Parallel(tp=2))
    assert held(asked, 8, 8).kv_bytes_per_token == 131072 // 2


def test_too_much_does_not_fit() -> None:
    assert held(request(LLAMA, "0.3.36", {"ctx_size": 1 << 20}), 15).starts.high < 0


@pytest.mark.parametrize(
    ("version", "options"),
    [("b6912", {}), ("0.1.50", {}), ("0.3.36", {"cache_type_k": "q9"}), ("0.3.36", {"ctx_size": -5})],
)
def test_what_nobody_can_tell_is_missing(version: str, options: dict[str, Any]) -> None:
    assert isinstance(holds(request(LLAMA, version, options), gib(15)), Missing)


def test_a_header_says_the_same_as_a_config() -> None:
    asked = request(LLAMA, "0.3.36", {"ctx_size": 8192})
    bare = replace(model(LLAMA), config=NOT_READ)
    header = replace(bare, gguf_metadata=Known(HEADER), gguf_architecture=Known("llama"))
    gguf = replace(asked, model=header)
    assert held(gguf, 15) == held(asked, 15)


def test_headers_of_hybrids_and_windows() -> None:
    kinds = [type(layer.mixers[0]) for layer in gguf_layers("qwen35", GATED)]
    assert kinds == [Recurrent, Recurrent, Recurrent, Attention] * 2
    state = gguf_layers("qwen35", GATED)[0].mixers[0]
    assert isinstance(state, Recurrent)
    assert (state.heads, state.head_dim, state.state_dim, state.conv_channels) == (48, 128, 128, 10240)
    gemma = {key.replace("llama", "gemma3"): value for key, value in HEADER.items()}
    layers = gguf_layers("gemma3", gemma | {"gemma3.attention.sliding_window": 1024})
    spans = [mixer.window for layer in layers for mixer in layer.mixers if isinstance(mixer, Attention)]
    assert spans[:6] == [1024] * 5 + [None]


@pytest.mark.parametrize(
    "changes",
    [
        {"llama.block_count": None},
        {"llama.block_count": 10**9},
        {"llama.attention.head_count": None},
        {"llama.attention.head_count_kv": [8, 8]},
        {"llama.attention.sliding_window": 4096},
        {"llama.embedding_length": 4097},
    ],
)
def test_headers_that_do_not_say_enough(changes: dict[str, object]) -> None:
    header = {key: value for key, value in (HEADER | changes).items() if value is not None}
    with pytest.raises(Lacking):
        gguf_layers("llama", header)


def test_it_fails_where_the_cache_is_larger_than_what_is_left() -> None:
    found = held(request(LLAMA, "0.3.36", {"ctx_size": 131072, "parallel": 1}), 70)
    assert found.starts.high < 0
    assert found.max_context.high * 131072 < 9.2 * GIB
