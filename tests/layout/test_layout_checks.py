"""Checks of a layout: a yes, a no and an unknown of each, and what is not judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from spread import BLOCK_FP8, LLAMA, MOE, SEEN, build, model, question

from canserve.checks import CHECKS
from canserve.checks.case import Case, Deployment
from canserve.checks.layout import disk_holds, judge
from canserve.facts import Cause, Fact, Known, Missing
from canserve.layout import Layout, layouts
from canserve.layout.judged import Judged
from canserve.layout.question import Question
from canserve.memory.quantity import GIB, Quantity
from canserve.memory.request import RankMemory, Serving
from canserve.subjects.host import CachedModel
from canserve.subjects.model import Quantization, Scheme
from canserve.subjects.parallel import Device, Parallel
from canserve.subjects.tensor import Tensor
from canserve.units import Bytes
from canserve.verdict import Finding, No, Skipped, Unknown, Verdict, Yes

BY_NAME = {check.name: check for check in CHECKS}
GDN = {
    **MOE, "model_type": "qwen3_next", "full_attention_interval": 4, "linear_num_value_heads": 32,
    "linear_num_key_heads": 16, "linear_value_head_dim": 128, "linear_key_head_dim": 128,
    "linear_conv_kernel_dim": 4, "num_experts": 512, "shared_expert_intermediate_size": 512,
}  # fmt: skip


def case(asked: Question, degrees: tuple[int, ...], **deployed: Any) -> Case:
    parallel = Parallel(*degrees)
    found = layouts(asked).at(parallel)
    placement = found.placement if isinstance(found, Layout) else None
    machine = asked.hosts[0].machine
    ranks = placement.ranks if placement else ()
    unified = deployed.pop("unified", False)
    devices = tuple(Device(machine, 100 * GIB, 100 * GIB, 100 * GIB, None, unified, "") for _ in ranks)
    deployment = Deployment(Judged(asked), parallel, placement, devices, **deployed)
    return Case(asked.model, build(), None, deployment=deployment)


def judged(name: str, asked: Question, *degrees: int, **deployed: Any) -> Verdict:
    finding = BY_NAME[name].judge(case(asked, degrees, **deployed))
    assert isinstance(finding, Finding), finding
    return finding.verdict


def skipped(name: str, asked: Question, *degrees: int, **deployed: Any) -> str:
    found = BY_NAME[name].judge(case(asked, degrees, **deployed))
    assert isinstance(found, Skipped), found
    return found.because


def without(field: str) -> Question:
    return question({key: value for key, value in LLAMA.items() if key != field})


def quantized(asked: Question, method: Any = BLOCK_FP8) -> Question:
    return replace(asked, model=model(MOE, method))


def seen(config: dict[str, Any], **more: Any) -> Question:
    return question({**LLAMA, **config}, **more)


VISION = {"vision_config": {"num_heads": 12}, "architectures": ["Glm4vForConditionalGeneration"]}

CASES: list[tuple[str, Callable[[], Question], tuple[int, ...], type[Verdict]]] = [
    ("heads-divide", question, (4,), Yes),
    ("heads-divide", question, (3,), No),
    ("heads-divide", lambda: without("num_attention_heads"), (4,), Unknown),
    ("kv-heads-divide-or-replicate", question, (8,), Yes),
    ("kv-heads-divide-or-replicate", lambda: question(gpus=(8, 8)), (16,), Yes),
    ("kv-heads-divide-or-replicate", lambda: seen({"num_key_value_heads": 10, "num_attention_heads": 40, "hidden_size": 5120}), (4,), No),
    ("kv-heads-divide-or-replicate", lambda: without("num_attention_heads"), (4,), Unknown),
    ("state-heads-divide", lambda: question(GDN), (8,), Yes),
    ("state-heads-divide", lambda: question(GDN, gpus=(32,)), (32,), No),
    ("vocabulary-divides", lambda: seen({"vocab_size": 32003}), (4,), Yes),
    ("vocabulary-divides", lambda: seen({"vocab_size": 151936}), (3,), No),
    ("vocabulary-divides", lambda: without("vocab_size"), (4,), Unknown),
    ("vocabulary-divides", lambda: seen({"vocab_size": 32003}, engine="other"), (4,), Unknown),
    ("mlp-width-divides", question, (8,), Yes),
    ("mlp-width-divides", lambda: seen({"intermediate_size": 14330}), (4,), No),
    ("expert-width-divides", lambda: question(MOE), (8,), Yes),
    ("expert-width-divides", lambda: question({**MOE, "moe_intermediate_size": 1540}), (8,), No),
    ("expert-width-divides", lambda: question({**MOE, "moe_intermediate_size": 1540}), (8, 1, 1, 8), Yes),
    ("expert-width-divides", lambda: question(MOE, engine="other"), (2, 1, 2), Unknown),
    ("experts-cover-ranks", lambda: question(MOE), (8, 1, 1, 8), Yes),
    ("experts-cover-ranks", question, (8, 1, 1, 8), No),
    ("experts-cover-ranks", lambda: question(MOE, version="0.7.3"), (8, 1, 1, 8), No),
    ("experts-cover-ranks", lambda: question(MOE), (8, 1, 1, 4), No),
    ("experts-cover-ranks", lambda: question(MOE, engine="sglang", version="0.5.9"), (8, 1, 1, 4), Yes),
    ("experts-cover-ranks", lambda: question(MOE, engine="other"), (8, 1, 1, 8), Unknown),
    ("quantization-blocks-divide", lambda: quantized(question(MOE)), (4,), Yes),
    ("quantization-blocks-divide", lambda: quantized(question(MOE)), (8,), No),
    ("quantization-blocks-divide", lambda: quantized(question(MOE)), (8, 1, 1, 8), Yes),
    ("quantization-blocks-divide", lambda: quantized(question(MOE, engine="other")), (8,), Unknown),
    ("vision-heads-divide", lambda: seen(VISION), (4,), Yes),
    ("vision-heads-divide", lambda: seen(VISION), (8,), No),
    ("vision-heads-divide", lambda: replace(seen(VISION), whole_encoder=True), (8,), Yes),
    ("vision-heads-divide", lambda: seen({"vision_config": {"num_heads": 12}}), (8,), Unknown),
    ("layers-cover-stages", question, (1, 8), Yes),
    ("layers-cover-stages", lambda: question(gpus=(64,)), (1, 33), No),
    ("layers-cover-stages", lambda: without("num_hidden_layers"), (1, 2), Unknown),
    ("data-parallel-allowed", question, (1, 1, 8), Yes),
    ("data-parallel-allowed", lambda: question(version="0.7.3"), (1, 1, 2), No),
    ("data-parallel-allowed", lambda: question(engine="sglang", version="0.5.9", gpus=(4, 4)), (4, 1, 2), No),
    ("data-parallel-allowed", lambda: question(engine="other"), (1, 1, 2), Unknown),
    ("machines-have-room", question, (8,), Yes),
    ("machines-have-room", question, (16,), No),
]  # fmt: skip


@pytest.mark.parametrize(("name", "asked", "degrees", "expected"), CASES)
def test_constraints(
    name: str, asked: Callable[[], Question], degrees: tuple[int, ...], expected: type
) -> None:
    assert isinstance(judged(name, asked(), *degrees), expected)


def test_a_machine_whose_accelerators_nobody_counted_is_unknown() -> None:
    asked = question(gpus=(1,))
    unstated = replace(asked, hosts=tuple(replace(host, stated=False) for host in asked.hosts))
    assert isinstance(judged("machines-have-room", unstated, 2), Unknown)


def test_a_no_names_the_nearest_size_that_is_legal_in_every_respect() -> None:
    verdict = judged(
        "heads-divide",
        seen(
            {"vocab_size": 32000, "hidden_size": 6656, "num_attention_heads": 52, "num_key_value_heads": 52}
        ),
        8,
    )
    assert isinstance(verdict, No)
    assert verdict.fix == "use tensor parallel 4"


def test_what_a_layout_does_not_cut_is_not_judged() -> None:
    assert skipped("state-heads-divide", question(), 4)
    assert skipped("expert-width-divides", question(), 4)
    assert skipped("layers-cover-stages", question(), 4)
    assert skipped("vision-heads-divide", question(), 4)


def test_without_a_layout_no_layout_check_is_judged() -> None:
    for check in CHECKS:
        if check.needs_layout:
            assert isinstance(check.judge(Case(model(LLAMA), build())), Skipped)


# memory


def gib(value: float, low: float | None = None, high: float | None = None) -> Quantity:
    ends = (value if low is None else low, value if high is None else high)
    return Quantity(value * GIB, ends[0] * GIB, ends[1] * GIB, "test")


def memory(**parts: Quantity | None) -> RankMemory:
    figures: dict[str, Any] = {
        "total": gib(100), "budget": gib(90), "weights": gib(50), "activation": gib(2), "graphs": gib(1),
        "non_torch": gib(1), "kv_available": gib(37),
    }  # fmt: skip
    return RankMemory(**(figures | parts))


def serves(rank: RankMemory | None = None, **parts: Any) -> Fact[Serving]:
    tokens = Quantity(100_000, 95_000, 105_000, "test")
    figures: dict[str, Any] = {
        "ranks": (rank or memory(),), "kv_bytes_per_token": 1 << 17, "state_bytes_per_sequence": 0, "block": 16,
        "kv_tokens": tokens, "context": 32768, "max_context": tokens,
        "max_concurrency": Quantity(3.05, 2.9, 3.2, "test"), "starts": gib(5, 4, 6),
    }  # fmt: skip
    return Known(Serving(**(figures | parts)), SEEN)


NOT_KNOWN = Missing(Cause.UNAVAILABLE, "no rules for this release", ask="start it once")

MEMORY: list[tuple[str, Fact[Serving], type]] = [
    ("weights-fit", serves(), Yes),
    ("weights-fit", serves(memory(weights=gib(95, 94, 96))), No),
    ("weights-fit", serves(memory(weights=gib(89, 80, 95))), Unknown),
    ("weights-fit", serves(memory(load_peak=gib(120))), No),
    ("weights-fit", NOT_KNOWN, Unknown),
    ("cache-fits-context", serves(), Yes),
    ("cache-fits-context", serves(context=200_000), No),
    ("cache-fits-context", serves(context=100_000), Unknown),
    ("state-fits-sequences", serves(state_bytes_per_sequence=GIB), Yes),
    ("state-fits-sequences", serves(state_bytes_per_sequence=1, sequences=256, state_slots=Quantity(300, 260, 400, "")), Yes),
    ("state-fits-sequences", serves(state_bytes_per_sequence=1, sequences=256, state_slots=Quantity(161, 150, 170, "")), No),
    ("state-fits-sequences", serves(state_bytes_per_sequence=1, sequences=256, state_slots=Quantity(250, 200, 300, "")), Unknown),
    ("state-fits-sequences", serves(state_bytes_per_sequence=GIB, rank=memory(kv_available=gib(0.5))), No),
    ("state-fits-sequences", serves(state_bytes_per_sequence=GIB, rank=memory(kv_available=gib(1, 0.5, 2))), Unknown),
    ("graphs-fit", serves(), Yes),
    ("graphs-fit", serves(memory(budget=gib(99.5), kv_available=gib(46.5), graphs=gib(3))), No),
    ("graphs-fit", serves(memory(budget=gib(98), kv_available=gib(45), graphs=gib(2, 1, 3))), Unknown),
    ("graphs-fit", serves(memory(total=gib(100, 80, 120), budget=gib(90, 72, 108), kv_available=gib(36), graphs=gib(2, 1, 3))), Yes),
    ("graphs-fit", serves(memory(total=gib(100, 80, 120), budget=gib(90, 88, 92), kv_available=gib(36), graphs=gib(2, 1, 3))), Unknown),
    ("start-memory-free", serves(), Yes),
    ("start-memory-free", serves(starts=gib(-3, -4, -2)), No),
    ("start-memory-free", serves(starts=gib(1, -2, 3)), Unknown),
]  # fmt: skip


@pytest.mark.parametrize(("name", "found", "expected"), MEMORY)
def test_memory(name: str, found: Fact[Serving], expected: type) -> None:
    assert isinstance(judged(name, question(), 1, serving=found), expected)


def test_graphs_within_the_budget_are_not_counted_twice() -> None:
    inside = memory(budget=gib(99.5), weights=gib(50), kv_available=gib(45.5), graphs=gib(1))
    assert isinstance(judged("graphs-fit", question(), 1, serving=serves(inside)), Yes)


@pytest.mark.parametrize(("reserve", "expected"), [(gib(8), Yes), (gib(12), No), (gib(10, 8, 12), Unknown)])
def test_a_shared_memory_holds_the_system_too(reserve: Quantity, expected: type) -> None:
    found = serves(memory(host=reserve))
    assert isinstance(judged("host-memory-holds", question(), 1, serving=found, unified=True), expected)
    assert "memory of their own" in skipped("host-memory-holds", question(), 1, serving=found)


def test_more_sequences_at_once_than_fit() -> None:
    asked, found = question(), serves()
    assert isinstance(judged("cache-fits-context", asked, 1, serving=found, sequences=2), Yes)
    assert isinstance(judged("cache-fits-context", asked, 1, serving=found, sequences=3), Unknown)
    assert isinstance(judged("cache-fits-context", asked, 1, serving=found, sequences=8), No)


def test_what_is_not_computed_is_said_once() -> None:
    findings, rest = judge(case(question(), (1,), serving=NOT_KNOWN))
    assert [each.check for each in findings if isinstance(each.verdict, Unknown)] == ["weights-fit"]
    assert {"cache-fits-context", "graphs-fit"} <= {each.check for each in rest}


def test_an_illegal_layout_holds_nothing() -> None:
    assert skipped("weights-fit", question(), 3, serving=serves()) == "the layout is not legal"


@pytest.mark.parametrize(("disk", "expected"), [("1 TB", Yes), ("1 GB", No)])
def test_the_disk_holds_the_weights(disk: str, expected: type) -> None:
    asked = question()
    machine = replace(asked.hosts[0].machine, disk=Known(Bytes.parse(disk), SEEN))
    stated = replace(asked, hosts=(replace(asked.hosts[0], machine=machine),))
    assert isinstance(judged("disk-holds", stated, 1), expected)


@pytest.mark.parametrize(
    ("origin", "cached", "expected"),
    [
        ("hub", (), No),
        ("hub", (CachedModel("ORG/Model", "feed", Bytes.parse("9 TB"), True, ""),), Yes),
        ("hub", (CachedModel("org/model", "feed", Bytes.parse("9 TB"), False, "a file is missing"),), Yes),
        ("hub", (CachedModel("org/model", "feed", Bytes(0), False, "no snapshot"),), No),
        ("hub", (CachedModel("org/other", "feed", Bytes.parse("9 TB"), True, ""),), No),
        ("hub", None, Unknown),
        ("folder", (), Unknown),
    ],
)
def test_weights_that_lie_on_a_full_disk_already(
    origin: str, cached: tuple[CachedModel, ...] | None, expected: type
) -> None:
    asked = question()
    found = Missing(Cause.UNREADABLE, "the list is cut") if cached is None else Known(cached, SEEN)
    machine = replace(asked.hosts[0].machine, disk=Known(Bytes.parse("1 GB"), SEEN), cached_models=found)
    host = replace(asked.hosts[0], machine=machine)
    model = replace(asked.model, subject="org/model", origin=origin)
    assert isinstance(judged("disk-holds", replace(asked, model=model, hosts=(host,)), 1), expected)


def test_a_disk_that_nobody_stated_is_not_judged_and_one_that_was_not_reached_is_unknown() -> None:
    asked = question()
    assert "states no disk" in skipped("disk-holds", asked, 1)
    machine = replace(asked.hosts[0].machine, disk=Missing(Cause.UNREACHED, "host is down"))
    away = replace(asked, hosts=(replace(asked.hosts[0], machine=machine),))
    assert isinstance(judged("disk-holds", away, 1), Unknown)


def test_what_follows_from_weights_that_do_not_fit_is_not_said_again() -> None:
    full = serves(
        memory(weights=gib(95, 94, 96), kv_available=gib(-8)), max_context=Quantity(0, 0, 0, "none")
    )
    findings, rest = judge(case(question(), (1,), serving=full))
    assert [each.check for each in findings if isinstance(each.verdict, No)] == ["weights-fit"]
    assert {"cache-fits-context", "graphs-fit", "start-memory-free"} <= {each.check for each in rest}


def test_weights_that_fit_and_leave_no_room_are_no_yes() -> None:
    tight = serves(memory(weights=gib(86), kv_available=gib(-1)), max_context=Quantity(0, 0, 0, "none"))
    assert isinstance(judged("weights-fit", question(), 1, serving=tight), Yes)
    assert isinstance(judged("cache-fits-context", question(), 1, serving=tight), No)


def test_replicas_over_several_machines_are_doubted_by_their_places() -> None:
    assert isinstance(judged("data-parallel-allowed", question(gpus=(3, 1)), 2, 1, 2), Unknown)
    assert isinstance(judged("data-parallel-allowed", question(gpus=(2, 2)), 2, 1, 2), Yes)


GPTQ = Quantization(
    "gptq", "gptq", "config.json", (Scheme(4, "int", "group", 128, None, None, None, None),), (), None, {}
)  # fmt: skip
NARROW = {**MOE, "moe_intermediate_size": 1536, "intermediate_size": 12288}


@pytest.mark.parametrize(
    ("engine", "version", "tp", "expected"),
    [
        ("vllm", "0.25.1", 4, Yes),
        ("vllm", "0.25.1", 8, Yes),  # groups are halved to 64
        ("vllm", "0.9.1", 8, Unknown),
        ("sglang", "0.5.9", 8, Unknown),
    ],
)
def test_groups_of_experts(engine: str, version: str, tp: int, expected: type) -> None:
    asked = replace(question(MOE, engine=engine, version=version), model=model(NARROW, GPTQ))
    assert isinstance(judged("quantization-blocks-divide", asked, tp), expected)


def test_groups_of_linear_layers_are_cut_along_the_inputs_alone() -> None:
    narrow = {**LLAMA, "intermediate_size": 14336 + 64 * 8}  # 1856 inputs of down_proj a rank, 14.5 groups
    old = replace(question(narrow, version="0.17.1"), model=model(narrow, GPTQ))
    verdict = judged("quantization-blocks-divide", old, 8)
    assert isinstance(verdict, No)
    assert "down_proj leaves 1856 inputs" in verdict.because


def test_headers_say_what_is_quantized() -> None:
    names = (("q_proj", 4096), ("k_proj", 1024), ("v_proj", 1024), ("o_proj", 4096))
    attention = [Tensor(f"model.layers.0.self_attn.{n}.weight", (rows, 4096), "F8_E4M3") for n, rows in names]
    mlp = Tensor("model.layers.0.mlp.down_proj.weight", (4096, 14336), "BF16")
    config = {**LLAMA, "intermediate_size": 14400, "num_hidden_layers": 1}
    stored = model(config, BLOCK_FP8, tensors=Known((*attention, mlp), SEEN))
    asked = replace(question(config), model=stored)
    assert isinstance(judged("quantization-blocks-divide", asked, 8), Yes)
    wide = replace(mlp, shape=(4096, 14400), dtype="F8_E4M3")
    full = replace(asked, model=model(config, BLOCK_FP8, tensors=Known((*attention, wide), SEEN)))
    assert isinstance(judged("quantization-blocks-divide", full, 8), No)


def test_a_checkpoint_whose_matrices_cannot_be_told_is_unknown() -> None:
    strange = model(LLAMA, BLOCK_FP8, tensors=Known((Tensor("blob", (4096, 4096), "F8_E4M3"),), SEEN))
    assert isinstance(judged("quantization-blocks-divide", replace(question(), model=strange), 4), Unknown)


NEMOTRON = {
    "model_type": "nemotron_h", "architectures": ["NemotronHForCausalLM"], "hidden_size": 2688,
    "num_hidden_layers": 4, "hybrid_override_pattern": "MEM*", "num_attention_heads": 32,
    "num_key_value_heads": 2, "head_dim": 128, "mamba_num_heads": 64, "mamba_head_dim": 64, "n_groups": 8,
    "ssm_state_size": 128, "conv_kernel": 4, "intermediate_size": 1856, "moe_intermediate_size": 1856,
    "n_routed_experts": 128, "num_experts_per_tok": 6, "vocab_size": 131072,
    "moe_shared_expert_intermediate_size": 3712, "n_shared_experts": 1,
}  # fmt: skip


@pytest.mark.parametrize(("groups", "tp", "expected"), [(8, 8, Yes), (8, 16, No), (1, 16, Yes)])
def test_groups_of_mamba_are_whole_or_one(groups: int, tp: int, expected: type) -> None:
    asked = question({**NEMOTRON, "n_groups": groups}, gpus=(16,))
    assert isinstance(judged("state-heads-divide", asked, tp), expected)


def test_kv_heads_are_repeated_evenly_or_not_at_all() -> None:
    asked = seen({"num_attention_heads": 24, "num_key_value_heads": 4, "hidden_size": 3072})
    assert isinstance(judged("heads-divide", asked, 6), Yes)
    assert isinstance(judged("kv-heads-divide-or-replicate", asked, 6), No)


def test_more_ranks_than_experts() -> None:
    assert isinstance(judged("experts-cover-ranks", question(MOE, gpus=(8,) * 32), 8, 1, 32, 256), No)


@pytest.mark.parametrize(
    ("engine", "version", "expected"), [("vllm", "0.25.1", No), ("sglang", "0.5.9", Yes)]
)
def test_replicas_share_the_slices_of_experts_where_the_engine_does_so(
    engine: str, version: str, expected: type
) -> None:
    asked = quantized(question(MOE, gpus=(16,), engine=engine, version=version))
    assert isinstance(judged("quantization-blocks-divide", asked, 4, 1, 4), expected)


@pytest.mark.parametrize(
    ("engine", "version", "expected"),
    [
        ("vllm", "0.25.1", No),
        ("lmdeploy", "0.18.0", No),
        ("lmdeploy", "0.9.0", Unknown),
        ("llama.cpp", "b7000", Unknown),
    ],
)
def test_heads_forbid_only_where_the_engine_needs_them_whole(
    engine: str, version: str, expected: type
) -> None:
    assert isinstance(judged("heads-divide", question(engine=engine, version=version), 3), expected)
    assert isinstance(judged("heads-divide", question(engine=engine, version=version), 4), Yes)


def test_an_engine_that_cuts_widths_unevenly_takes_them() -> None:
    odd = seen({"intermediate_size": 14330}, engine="lmdeploy", version="0.18.0")
    assert isinstance(judged("mlp-width-divides", odd, 4), Yes)


def test_whole_layers_of_any_model() -> None:
    asked = question(engine="llama.cpp", version="b7000")
    assert at(asked, 1, 2).doubts == ()
    assert isinstance(judged("data-parallel-allowed", asked, 1, 1, 2), No)


def at(asked: Question, *degrees: int) -> Layout:
    found = layouts(asked).at(Parallel(*degrees))
    assert isinstance(found, Layout), found
    return found


def test_an_encoder_that_its_class_always_cuts_is_not_healed_by_the_flag() -> None:
    config = {**VISION, "architectures": ["LlavaForConditionalGeneration"]}
    cuts = build("vllm", "0.25.1", supports_multimodal_encoder_tp_data=False)
    known = replace(cuts, classes={"LlavaForConditionalGeneration": cuts.classes["LlamaForCausalLM"]})
    for asked in (replace(seen(config), build=known), replace(seen(config), build=known, whole_encoder=True)):
        verdict = judged("vision-heads-divide", asked, 8)
        assert isinstance(verdict, No)
        assert "whole" not in verdict.fix
    healed = judged("vision-heads-divide", seen(VISION), 8)
    assert isinstance(healed, No)
    assert "--mm-encoder-tp-mode data" in healed.fix


def test_attention_of_replicas_is_kept_apart_by_classes_that_are_known_to() -> None:
    asked = question(MOE, engine="sglang", version="0.5.9")
    assert isinstance(judged("data-parallel-allowed", asked, 2, 1, 4, 8), Yes)
    other = question({**MOE, "architectures": ["Other"]}, engine="sglang", version="0.5.9")
    assert isinstance(judged("data-parallel-allowed", other, 2, 1, 4, 8), Unknown)
    old = question(MOE, engine="sglang", version="0.4.6")
    assert isinstance(judged("data-parallel-allowed", old, 2, 1, 4, 8), Unknown)
    assert isinstance(judged("data-parallel-allowed", question(MOE), 2, 1, 4, 8), Yes)


def test_the_weights_of_a_model_are_added_up_once_for_all_its_plans() -> None:
    subject = model(LLAMA)
    assert disk_holds.implied_bytes(subject) is disk_holds.implied_bytes(subject)
