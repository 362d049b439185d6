"""What every rank holds: cut, replicated, padded, spread, dealt to stages."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from canserve.facts import Known
from canserve.memory.quantity import GIB
from canserve.memory.weights.cuts import Place, layers_ahead, spot
from canserve.memory.weights.implied import implied, implied_tensors
from canserve.memory.weights.loading import Loading, loading
from canserve.memory.weights.sharding import rank_weights
from canserve.memory.weights.stored import stored
from canserve.probes.model.reading import read_model
from canserve.rules.weights import Padding, allocator
from canserve.subjects.parallel import Parallel, Placement, Rank
from canserve.subjects.tensor import Tensor

SMALL = {
    "model_type": "qwen3_moe", "hidden_size": 64, "num_hidden_layers": 5, "num_attention_heads": 8,
    "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 128, "moe_intermediate_size": 32,
    "num_experts": 6, "num_experts_per_tok": 2, "decoder_sparse_step": 1, "vocab_size": 100,
    "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip
HIDDEN, VOCABULARY = 64, 128  # the vocabulary is padded to a multiple of 64


def layout(tp: int = 1, pp: int = 1, dp: int = 1, ep: int = 1, layers: tuple[int, ...] = (5,)) -> Placement:
    """Ranks numbered dp-major, then pp, then tp, on one machine."""
    ranks = [Rank(n, n % tp, n // tp % pp, n // tp // pp, "host", n) for n in range(tp * pp * dp)]
    return Placement(Parallel(tp, pp, dp, ep), tuple(ranks), layers)


def small(tmp_path: Path, **changes: Any) -> tuple[tuple[Tensor, ...], Loading]:
    """The tensors and the loading of a small model."""
    config = SMALL | changes
    (tmp_path / "config.json").write_text(json.dumps(config))
    return implied_tensors(config, None), loading(read_model(str(tmp_path)))


def values(tensors: tuple[Tensor, ...], how: Loading, placement: Placement) -> list[float]:
    """Bytes a rank, less what the allocator rounds up: these tensors are all small."""
    return [quantity.value for quantity in rank_weights(tensors, how, placement)]


def rounded(*elements: int) -> int:
    """Bytes of BF16 allocations of so many elements."""
    return sum(allocator().taken(2 * count) for count in elements)


def one_layer(tp: int, experts: int, width: int) -> int:
    """A layer of the small model by hand: fused QKV, output, norms, router, experts."""
    keys = 2 * max(1, 2 // tp) * 16
    attention = rounded(
        (8 // tp * 16 + keys) * HIDDEN, HIDDEN * 128 // tp, 16, 16, HIDDEN, HIDDEN, 6 * HIDDEN
    )
    return attention + rounded(experts * 2 * width * HIDDEN, experts * width * HIDDEN)


def ends(tp: int) -> int:
    """Embedding, head, final norm."""
    return rounded(VOCABULARY // tp * HIDDEN, VOCABULARY // tp * HIDDEN, HIDDEN)


@pytest.mark.parametrize("tp", [1, 2, 4, 8])
def test_tensor_parallel_cuts_and_replicates(tmp_path: Path, tp: int) -> None:
    tensors, how = small(tmp_path)
    expected = 5 * one_layer(tp, 6, 32 // tp) + ends(tp)
    assert values(tensors, how, layout(tp)) == [expected] * tp


def test_experts_that_do_not_divide_go_to_the_first_ranks(tmp_path: Path) -> None:
    tensors, how = small(tmp_path)
    expected = [5 * one_layer(4, experts, 32) + ends(4) for experts in (2, 2, 1, 1)]
    assert values(tensors, how, layout(4, ep=4)) == expected


def test_experts_are_cut_where_they_are_spread_over_fewer_ranks(tmp_path: Path) -> None:
    tensors, how = small(tmp_path)
    assert values(tensors, how, layout(4, ep=2)) == [5 * one_layer(4, 3, 16) + ends(4)] * 4


def test_experts_cut_over_replicas(tmp_path: Path) -> None:
    tensors, how = small(tmp_path)
    assert values(tensors, how, layout(dp=2)) == [5 * one_layer(1, 6, 32) + ends(1)] * 2
    across = replace(how, across_replicas=True)
    assert values(tensors, across, layout(dp=2)) == [5 * one_layer(1, 6, 16) + ends(1)] * 2
    assert values(tensors, across, layout(dp=2, ep=2)) == [5 * one_layer(1, 3, 32) + ends(1)] * 2
    # Experts that are spread over more ranks than tensor parallel has lie on all replicas together.
    assert values(tensors, how, layout(dp=2, ep=2)) == [5 * one_layer(1, 3, 32) + ends(1)] * 2


def test_stages_hold_their_layers_and_the_ends_theirs(tmp_path: Path) -> None:
    tensors, how = small(tmp_path)
    layer, side = one_layer(1, 6, 32), rounded(VOCABULARY * HIDDEN)
    found = values(tensors, how, layout(pp=3, layers=(2, 2, 1)))
    assert found == [2 * layer + side, 2 * layer, layer + side + rounded(HIDDEN)]


def test_a_tied_embedding_lies_on_both_ends_once_each(tmp_path: Path) -> None:
    tensors, how = small(tmp_path, tie_word_embeddings=True)
    side, layer = rounded(VOCABULARY * HIDDEN), one_layer(1, 6, 32)
    assert values(tensors, how, layout()) == [5 * layer + side + rounded(HIDDEN)]
    assert values(tensors, how, layout(pp=2, layers=(3, 2))) == [
        3 * layer + side, 2 * layer + side + rounded(HIDDEN),
    ]  # fmt: skip


def test_a_stored_copy_of_a_tied_head_is_not_loaded(tmp_path: Path) -> None:
    tensors, how = small(tmp_path, tie_word_embeddings=True)
    more = (*tensors, Tensor("lm_head.weight", (100, HIDDEN), "BF16"))
    assert values(more, how, layout()) == values(tensors, how, layout())


def test_layers_beyond_the_config_are_held_all_the_same(tmp_path: Path) -> None:
    longer, _ = small(tmp_path, num_hidden_layers=6)
    _, how = small(tmp_path)
    assert values(longer, how, layout()) == [6 * one_layer(1, 6, 32) + ends(1)]


def test_floats_are_held_in_the_computation_dtype(tmp_path: Path) -> None:
    tensors, how = small(tmp_path)
    wide = tuple(replace(tensor, dtype="F32") for tensor in tensors)
    assert values(wide, how, layout()) == values(tensors, how, layout())
    assert values(tensors, replace(how, dtype="F32"), layout())[0] > 1.9 * values(tensors, how, layout())[0]


def test_online_quantization_halves_linear_layers_only(tmp_path: Path) -> None:
    tensors, how = small(tmp_path)
    plain, halved = (values(tensors, replace(how, online=kind), layout())[0] for kind in (None, "F8_E4M3"))
    linear = 5 * (rounded((128 + 64) * HIDDEN, HIDDEN * 128) + rounded(6 * 64 * HIDDEN, 6 * 32 * HIDDEN))
    assert plain - halved == linear / 2


def test_layers_ahead_are_loaded_when_asked(root: Path) -> None:
    model = read_model(str(root / "examples" / "founding" / "model"))
    tensors, how = stored(model), loading(model)
    assert isinstance(tensors, Known)
    two = layout(2, layers=(48,))
    base = values(tensors.value, how, two)[0]
    ahead = values(tensors.value, replace(how, ahead=True), two)[0] - base
    towers = base - values(tensors.value, replace(how, towers=False), two)[0]
    assert 1.1 * GIB < ahead < 1.4 * GIB
    assert 0.3 * GIB < towers < 0.6 * GIB
    whole = values(tensors.value, replace(how, whole_towers=True), two)[0]
    assert 1.8 * towers < whole - base + towers < 2.05 * towers


def test_a_module_that_predicts_ahead_numbers_its_own_layers() -> None:
    names = ["backbone.layers.0.norm.weight", "mtp.layers.0.enorm.weight", "model.layers.9.eh_proj.weight"]
    assert layers_ahead(names) == {9}
    places = [spot(name, layers_ahead(names)).place for name in names]
    assert places == [Place.LAYER, Place.AHEAD, Place.AHEAD]


def test_copies_of_embedding_and_head_in_layers_ahead_are_shared(shared: Path) -> None:
    model = read_model(str(shared / "models" / "deepseek-ai__DeepSeek-V3"))
    tensors, how = implied(model), loading(model)
    assert isinstance(tensors, Known)
    base, more = (
        rank_weights(tensors.value, replace(how, ahead=ahead), layout(8, layers=(61,)))[0]
        for ahead in (False, True)
    )
    assert 1.3 * GIB < more.value - base.value < 1.6 * GIB  # an eighth of 11.5 G parameters in eight bits
    assert more.high - base.high > 1.7 * GIB


def test_the_founding_pair(root: Path) -> None:
    model = read_model(str(root / "examples" / "founding" / "model"))
    tensors, how = stored(model), replace(loading(model), towers=False)
    assert isinstance(tensors, Known)
    for quantity in rank_weights(tensors.value, how, layout(2, layers=(48,))):
        assert abs(quantity.value / GIB - 57.8) < 0.01 * 57.8
        assert quantity.low < 57.8 * GIB < quantity.high


def test_an_unknown_config_leaves_an_interval() -> None:
    tensors = (
        Tensor("model.layers.0.self_attn.k_proj.weight", (512, 1024), "BF16"),
        Tensor("model.layers.0.strange.weight", (512, 1024), "BF16"),
    )
    found = rank_weights(tensors, Loading(None), layout(4, layers=(1,)))[0]
    assert found.value == rounded(512 * 1024 // 4) + rounded(512 * 1024)
    assert found.low <= 2 * rounded(512 * 1024 // 4) and found.high >= 2 * rounded(512 * 1024)


def test_mamba_groups_repeat_where_ranks_outnumber_them(tmp_path: Path) -> None:
    config = {
        "model_type": "nemotron_h", "hidden_size": 64, "num_hidden_layers": 1, "hybrid_override_pattern": "M",
        "mamba_num_heads": 16, "mamba_head_dim": 8, "ssm_state_size": 32, "n_groups": 2, "conv_kernel": 4,
        "vocab_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
        "intermediate_size": 128, "tie_word_embeddings": False,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    how, tensors = loading(read_model(str(tmp_path))), implied_tensors(config, None)
    projections = tuple(tensor for tensor in tensors if "in_proj" in tensor.name)
    for tp, groups in ((1, 2), (2, 1), (4, 1)):
        rows = 2 * 128 // tp + 2 * groups * 32 + 16 // tp
        assert values(projections, how, layout(tp, layers=(1,))) == [rounded(rows * 64)] * tp


def test_padded_experts(shared: Path) -> None:
    model = read_model(str(shared / "models" / "openai__gpt-oss-20b"))
    config = model.config
    assert isinstance(config, Known) and isinstance(model.quantization, Known)
    tensors, how = implied_tensors(config.value, model.quantization.value), loading(model)
    plain = rank_weights(tensors, how, layout(layers=(24,)))[0]
    padded = rank_weights(
        tensors, replace(how, padding=Padding(1, 64), most_padding=Padding(256, 128)), layout(layers=(24,))
    )[0]
    assert padded.value == plain.value and padded.high > 1.05 * plain.high
    marlin = rank_weights(tensors, replace(how, padding=Padding(256, 128)), layout(layers=(24,)))[0]
    assert abs(marlin.value / GIB - 13.72) < 0.05  # printed on an A100


def test_the_allocator_rounds_as_torch_does() -> None:
    taken, mib = allocator().taken, 1 << 20
    assert taken(1) == 512 and taken(513) == 1024
    assert taken(31 * mib + mib // 2) == 32 * mib  # half a MiB is left over, and stays with it
    assert taken(259 * mib) == 260 * mib
    assert taken(64 * mib + 3 * mib // 4) == 64 * mib + 3 * mib // 4  # more is left over, which others get
    assert taken(9 * mib) == 9 * mib
