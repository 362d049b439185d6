"""Bytes of rows and states, groups that share a pool, and what the pool holds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from canserve.memory.cache.capacity import Pool
from canserve.memory.cache.groups import Pages, Unequal, group
from canserve.memory.cache.packed import Packing, pack
from canserve.memory.cache.rows import attention_row, cache_dtype, index_row, kv_heads, latent_row
from canserve.memory.cache.spec import Growth, Spec, as_full
from canserve.memory.cache.state import StateDtypes, state_bytes
from canserve.memory.layers.kinds import Attention, Latent, Recurrence, Recurrent
from canserve.memory.unserved import Unserved

FULL = Spec(Growth.FULL, 16, 1000)
WINDOW = Spec(Growth.WINDOW, 16, 1000, window=128)
STATE = Spec(Growth.STATE, 4096, 900)


@pytest.mark.parametrize(
    ("name", "bytes_of_a_head"),
    [
        ("bfloat16", 512),
        ("fp8", 256),
        ("nvfp4", 144),
        ("int8_per_token_head", 264),
        ("int4_per_token_head", 136),
        ("turboquant_4bit_nc", 66 + 68),
        ("turboquant_3bit_nc", 50 + 52),
    ],
)
def test_rows_by_dtype(name: str, bytes_of_a_head: int) -> None:
    dtype = cache_dtype(name)
    assert dtype is not None
    assert attention_row(Attention(8, 4, 128, 128), 4, dtype) == bytes_of_a_head


def test_unknown_dtypes_have_no_size() -> None:
    assert cache_dtype("fp3") is None


def test_latent_rows_are_the_same_on_every_rank() -> None:
    plain = cache_dtype("bfloat16")
    assert plain is not None
    assert latent_row(Latent(128, 512, 64, 128, 128, 1536), plain) == 1152
    packed = cache_dtype("nvfp4_ds_mla")
    assert packed is not None
    assert latent_row(Latent(128, 512, 64, 128, 128, 1536), packed) == 352
    assert index_row(128) == 132


def test_heads_are_cut_then_repeated() -> None:
    assert [kv_heads(8, ranks) for ranks in (1, 2, 8, 16)] == [8, 4, 1, 1]


def test_states_of_gated_delta_nets_and_mamba() -> None:
    gdn = Recurrent(Recurrence.GDN, 48, 128, 128, 16, 10240, 4)
    assert state_bytes(gdn, 1, StateDtypes(2, 4)) == 48 * 128 * 128 * 4 + 10240 * 3 * 2
    assert state_bytes(gdn, 2, StateDtypes(2, 4)) * 2 == state_bytes(gdn, 1, StateDtypes(2, 4))
    assert state_bytes(gdn, 1, StateDtypes(2, 4), 3) == 48 * 128 * 128 * 4 + 10240 * 6 * 2
    mamba = Recurrent(Recurrence.MAMBA2, 64, 64, 128, 2, 64 * 64 + 2 * 2 * 128, 4)
    four = 64 // 4 * 64 * 128 * 4 + (64 * 64 + 2 * 4 * 128) // 4 * 3 * 2
    assert state_bytes(mamba, 4, StateDtypes(2, 4)) == four  # groups are repeated to four
    with pytest.raises(Unserved):
        state_bytes(gdn, 7, StateDtypes(2, 4))


def test_one_kind_is_one_group() -> None:
    found = group([[FULL] * 4], 1.5, Pages.EQUAL)
    assert found is not None
    assert len(found.groups) == 1
    assert found.stage_bytes == (4000,)
    assert group([[]], 1.5, Pages.EQUAL) is None


def test_groups_are_as_large_as_the_rarest_kind() -> None:
    """52 layers of a window and 10 of full attention: 6 groups of windows, the last one padded."""
    found = group([[WINDOW] * 52 + [FULL] * 10], 1.5, Pages.EQUAL)
    assert found is not None
    assert len(found.groups) == 7
    assert found.stage_bytes == (10 * 1000,)


def test_nearly_as_many_of_both_make_two_groups() -> None:
    for factor, groups in ((0.0, 3), (1.25, 2)):
        found = group([[WINDOW] * 12 + [FULL] * 13], factor, Pages.EQUAL)
        assert found is not None
        assert len(found.groups) == groups


def test_stages_have_as_many_bytes_as_their_largest_group() -> None:
    found = group([[WINDOW] * 3 + [FULL], [WINDOW] * 3 + [FULL]], 1.5, Pages.EQUAL)
    assert found is not None
    assert found.stage_bytes == (1000, 1000)


def test_pages_of_two_sizes() -> None:
    wide = Spec(Growth.WINDOW, 16, 2000, window=128)
    with pytest.raises(Unequal):
        group([[FULL, wide]], 1.5, Pages.EQUAL)
    found = group([[FULL, wide]], 1.5, Pages.MULTIPLE)
    assert found is not None
    assert {each.spec.block for each in found.groups} == {16, 32}
    odd = Spec(Growth.WINDOW, 16, 1500, window=128)
    with pytest.raises(Unequal):
        group([[FULL, odd]], 1.5, Pages.MULTIPLE)
    padded = group([[FULL, odd]], 1.5, Pages.PADDED)
    assert padded is not None
    assert {each.spec.page for each in padded.groups} == {1500}


def test_states_are_padded_to_the_page_of_attention() -> None:
    found = group([[FULL] + [STATE] * 3], 1.5, Pages.EQUAL)
    assert found is not None
    assert {each.spec.page for each in found.groups} == {1000}


def test_blocks_of_one_sequence() -> None:
    assert FULL.blocks(33, 2048) == 3
    assert FULL.blocks(33, 2048, shards=2) == 2
    assert WINDOW.blocks(10_000, 64) == (127 + 64 + 15) // 16 + 1
    assert WINDOW.blocks(32, 64) == 3
    assert STATE.blocks(10_000, 64) == 1
    assert Spec(Growth.CHUNK, 16, 1000, window=64).blocks(10_000, 64) == 8


def test_windows_become_full_only_beside_full_layers() -> None:
    assert {spec.growth for spec in as_full([FULL, WINDOW])} == {Growth.FULL}
    assert as_full([WINDOW]) == [WINDOW]


def test_a_pool_holds_whole_blocks_of_the_smallest_stage() -> None:
    grouping = group([[FULL] * 2, [FULL] * 2], 1.5, Pages.EQUAL)
    assert grouping is not None
    pool = Pool(grouping, 2048)
    assert pool.blocks([20_500, 10_000]) == 5
    assert pool.blocks([-1, 10_000]) == 0
    assert pool.concurrency(5, 32) == 2.5
    assert pool.longest(5, 10**9) == 80
    assert Pool(grouping, 2048, reserved=1).longest(5, 10**9) == 64
    assert pool.longest(0, 100) == 0


def test_of_groups_with_as_few_empty_places_the_larger_ones_are_taken() -> None:
    """Groups of 6 leave 5 places empty, groups of 8 too; those of 8 are fewer."""
    layers = [Spec(Growth.FULL, 256, 100)] * 5
    layers += [Spec(Growth.WINDOW, 64, 100, 128)] * 8 + [Spec(Growth.WINDOW, 8, 100, 64)] * 6
    packed = pack([layers], Packing.SLABS)
    assert [len(each.layers) for each in packed.groups] == [5, 8, 6]
    assert packed.stage_bytes == (800,)


def test_a_block_is_as_large_as_its_groups_ask() -> None:
    """Two sizes of full pages and one of windows, which is padded to the larger before 0.27.0."""
    layers = (
        [Spec(Growth.FULL, 256, 100)] * 2 + [Spec(Growth.FULL, 256, 30)] + [Spec(Growth.WINDOW, 8, 40, 8)] * 2
    )
    sizes = {packing: pack([layers], packing).stage_bytes[0] for packing in list(Packing)[1:]}
    assert sizes == {"tuples": 260, "slots": 230, "slabs": 230, "widest": 230}
    with pytest.raises(Unequal):
        pack([[*layers, Spec(Growth.WINDOW, 8, 101, 8)]], Packing.TUPLES)


def test_states_for_every_block_and_those_of_drafted_tokens() -> None:
    assert Spec(Growth.STATES, 16, 1, states=2).blocks(33, 8192) == 3 + 2


def test_unlike_layers_of_all_stages_are_counted_on_each() -> None:
    """What vLLM 0.11.0 to 0.16.0 do with an indexer's rows beside latent ones."""
    found = group([[FULL, replace(FULL, page=FULL.page // 2)]] * 2, 1.5, Pages.EQUAL)
    assert found is not None
    room = [found.stage_bytes[0] * 100] * 2
    assert Pool(found, 8192).blocks(room) == 100
    assert Pool(found, 8192, whole=True).blocks(room) == 50
    like = group([[FULL, FULL]] * 2, 1.5, Pages.EQUAL)
    assert like is not None
    assert Pool(like, 8192, whole=True).blocks([FULL.page * 200] * 2) == 100
