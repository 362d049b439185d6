"""Which layouts are legal, where their ranks lie, and which rule forbids the others."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from spread import BLOCK_FP8, LLAMA, MOE, SEEN, build, host, model, question

from canserve.facts import Known
from canserve.layout import Fixed, Host, Layout, Question, layouts
from canserve.rules.machines import profile
from canserve.subjects.parallel import Illegal, Parallel


def rules(found: tuple[Illegal, ...]) -> dict[int, str]:
    return {each.parallel.tp: each.rule for each in found if each.parallel.tp > 1}


def at(asked: Question, *degrees: int) -> Layout:
    found = layouts(asked).at(Parallel(*degrees))
    assert isinstance(found, Layout), found
    return found


def test_heads_forbid_and_the_nearest_sizes_are_named() -> None:
    found = layouts(question(tp=7))
    assert not tuple(found.legal)
    (wrong,) = found.illegal
    assert (wrong.rule, wrong.parallel.tp) == ("heads-divide", 7)
    assert wrong.heals == "use tensor parallel 4 or 8"


def test_all_rules_that_forbid_exact_degrees_are_named() -> None:
    found = {each.rule for each in layouts(question(tp=7, pp=40, dp=1)).illegal}
    assert found == {
        "heads-divide", "kv-heads-divide-or-replicate", "vocabulary-divides", "layers-cover-stages",
        "machines-have-room",
    }  # fmt: skip


def test_ten_kv_heads_allow_one_and_two() -> None:
    phi = {
        **LLAMA,
        "num_attention_heads": 40,
        "num_key_value_heads": 10,
        "hidden_size": 5120,
        "vocab_size": 100352,
    }
    found = layouts(question(phi))
    assert {parallel.tp for parallel in found.degrees()} == {1, 2}
    assert rules(found.illegal)[4] == "kv-heads-divide-or-replicate"


@pytest.mark.parametrize(("engine", "version"), [("vllm", "0.25.1"), ("sglang", "0.5.9")])
def test_block_fp8_experts_are_healed_by_spreading_them(engine: str, version: str) -> None:
    asked = replace(question(MOE, engine=engine, version=version), model=model(MOE, BLOCK_FP8))
    found = layouts(asked)
    wrong = next(each for each in found.illegal if each.parallel == Parallel(8, 1, 1, 1))
    assert wrong.rule == "quantization-blocks-divide"
    assert "192" in wrong.because
    assert "expert parallel" in wrong.heals
    assert "tensor parallel 4" in wrong.heals
    assert Parallel(8, 1, 1, 8) in set(found.degrees())


def test_finer_scales_take_the_cut_where_a_release_makes_them() -> None:
    asked = replace(question(MOE, version="0.31.0"), model=model(MOE, BLOCK_FP8))
    assert Parallel(8, 1, 1, 1) in set(layouts(asked).degrees())


def test_vocabulary_is_padded_and_stretched_as_the_engine_does() -> None:
    wide = {**LLAMA, "num_attention_heads": 24, "num_key_value_heads": 24, "intermediate_size": 3 * 4096}
    odd = {**wide, "vocab_size": 151936}
    assert rules(layouts(question(odd)).illegal)[3] == "vocabulary-divides"
    assert 3 in {p.tp for p in layouts(question(odd, engine="sglang", version="0.5.9")).degrees()}


def test_groups_lie_within_machines_and_replicas_too() -> None:
    asked = question(gpus=(4, 8, 4))
    found = at(asked, 4, 1, 4)
    assert not found.spans
    assert [rank.machine for rank in found.placement.ranks] == ["m0"] * 4 + ["m1"] * 8 + ["m2"] * 4
    assert not at(asked, 4, 2, 1).spans
    assert {rank.machine for rank in at(asked, 4, 2, 1).placement.ranks} <= {"m0", "m1", "m2"}


def test_a_group_goes_over_machines_in_equal_shares_where_it_must() -> None:
    found = at(question(gpus=(1, 1)), 2)
    assert found.spans
    assert [(rank.machine, rank.device) for rank in found.placement.ranks] == [("m0", 0), ("m1", 0)]
    uneven = at(question(gpus=(6, 2)), 8)
    assert uneven.spans
    assert len({(rank.machine, rank.device) for rank in uneven.placement.ranks}) == 8


def test_an_engine_that_needs_equal_shares_refuses_uneven_ones() -> None:
    asked = question(gpus=(6, 2), engine="sglang", version="0.5.9", tp=8, pp=1, dp=1)
    assert [each.rule for each in layouts(asked).illegal] == ["machines-have-room"]
    assert Parallel(4) in set(layouts(replace(asked, fixed=Fixed())).degrees())


def test_the_strongest_machine_comes_first() -> None:
    asked = replace(question(), hosts=(host("small", 2, 24), host("large", 2, 141)))
    assert {rank.machine for rank in at(asked, 2).placement.ranks} == {"large"}


def test_layers_that_are_left_over_go_where_the_release_puts_them() -> None:
    odd = {**LLAMA, "num_hidden_layers": 61}
    assert at(question(odd), 1, 4).placement.layers == (15, 15, 16, 15)
    assert at(question(odd, version="0.7.3"), 1, 4).placement.layers == (15, 15, 15, 16)
    assert at(question(odd, engine="sglang", version="0.5.9"), 1, 4).placement.layers == (15, 15, 15, 16)
    assert at(question(odd, engine="sglang", version="0.5.5"), 1, 4).placement.layers == (15, 15, 15, 16)


def test_a_missing_number_is_named_and_forbids_nothing() -> None:
    config = {key: value for key, value in LLAMA.items() if key != "num_attention_heads"}
    found = at(question(config), 2)
    assert found.placement.layers == ()
    assert any("num_attention_heads" in doubt.because for _, doubt in found.doubts)


def test_an_engine_without_rules_leaves_doubts() -> None:
    asked = question({**LLAMA, "vocab_size": 128258}, engine="other", version="1.0")
    doubts = dict(at(asked, 4).doubts)
    assert "vocabulary-divides" in doubts


def with_build(asked: Question, **interfaces: bool) -> Question:
    return replace(asked, build=build("vllm", "0.25.1", **interfaces))


def test_a_class_that_cannot_be_cut_forbids_stages_and_what_was_not_read_is_doubted() -> None:
    wrong = {each.rule: each for each in layouts(with_build(question(), supports_pp=False)).illegal}
    assert wrong["pipeline-supported"].heals == "leave pipeline parallelism out"
    assert wrong["pipeline-supported"].larger
    assert at(with_build(question(), supports_pp=True), 1, 2).doubts == ()
    assert [name for name, _ in at(with_build(question()), 1, 2).doubts] == ["pipeline-supported"]
    assert [name for name, _ in at(question(), 1, 2).doubts] == ["pipeline-supported"]


def test_a_draft_class_has_to_be_cut_too() -> None:
    able, draft = build(supports_pp=True), build(supports_pp=False)
    both = replace(
        able,
        classes={**able.classes, "SmallMTP": draft.classes["LlamaForCausalLM"]},
        draft_classes=Known({"LlamaForCausalLM": ("SmallMTP",)}, SEEN),
    )
    assert at(replace(question(), build=both), 1, 2).doubts == ()
    found = layouts(replace(question(), build=both, draft=True)).at(Parallel(1, 2))
    assert isinstance(found, tuple)
    assert found[0].rule == "pipeline-supported"


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_absurd_sizes_take_no_time(engine: str) -> None:
    version = {"vllm": "0.25.1", "sglang": "0.5.9"}[engine]
    start = time.process_time()
    most = 10**9
    for fixed in (Fixed(tp=most), Fixed(pp=most), Fixed(dp=most), Fixed(most, most, most), Fixed(ep=most)):
        found = layouts(replace(question(MOE, engine=engine, version=version), fixed=fixed))
        assert not list(found.degrees())
        assert found.illegal
    assert time.process_time() - start < 2


def test_absurd_sizes_are_refused_at_once_with_the_nearest_legal_one() -> None:
    found = layouts(question(tp=10**9)).illegal
    assert {each.rule for each in found} >= {"heads-divide", "machines-have-room"}
    assert all("tensor parallel 8" in each.heals for each in found)
    assert not layouts(question(pp=10**9)).illegal[0].larger


def test_a_thousand_machines_in_seconds() -> None:
    asked = question(gpus=(8,) * 1000)
    start = time.process_time()
    found = layouts(asked)
    degrees = list(found.degrees())
    assert time.process_time() - start < 5
    assert len(degrees) > 1000
    assert len(at(asked, 8, 1, 1000).placement.ranks) == 8000


@pytest.mark.parametrize("gpus", [(8,), (8,) * 8, (3, 5, 1)])
def test_every_legal_layout_has_places_for_its_ranks(gpus: tuple[int, ...]) -> None:
    asked = question(MOE, gpus=gpus)
    sizes = {f"m{number}": count for number, count in enumerate(gpus)}
    count = 0
    for layout in layouts(asked).legal:
        places = [(rank.machine, rank.device) for rank in layout.placement.ranks]
        assert len(set(places)) == len(places) == layout.placement.parallel.ranks
        assert all(device < sizes[machine] for machine, device in places)
        assert sum(layout.placement.layers) == MOE["num_hidden_layers"]
        count += 1
    assert count > 5


def test_accelerators_of_different_makers_do_not_serve_together() -> None:
    amd = profile("mi300x")
    assert amd is not None
    mixed = replace(question(gpus=(2,)), hosts=(host("green", 2), Host("red", amd, 4)))
    assert {rank.machine for rank in at(mixed, 4).placement.ranks} == {"red"}
    found = layouts(mixed).at(Parallel(2, 3))
    assert isinstance(found, tuple)
    assert "of one maker" in found[0].because


def test_replicas_that_straddle_machines_are_doubted() -> None:
    asked = with_build(question(gpus=(1, 1, 1, 1)), supports_pp=True)
    assert [name for name, _ in at(asked, 2, 1, 2).doubts] == ["data-parallel-allowed"]
    assert at(asked, 2, 1, 1).doubts == ()
    assert at(with_build(question(gpus=(2, 2)), supports_pp=True), 2, 1, 2).doubts == ()
