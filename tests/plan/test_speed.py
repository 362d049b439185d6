"""Speed: what a step reads, what it waits for, and what bounds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from canserve.facts import Cause, Evidence, Fact, Known, Missing
from canserve.memory.request import Request
from canserve.plan.links import between, inside, rate_of
from canserve.plan.plan import Speed
from canserve.plan.speed import speed
from canserve.plan.traffic import Pool
from canserve.rules.machines import profile
from canserve.subjects.machine import Machine
from canserve.subjects.model import ONLY_CONFIG, Model
from canserve.subjects.parallel import Device, Parallel, Placement, Rank
from canserve.subjects.tensor import Tensor
from canserve.units import Compute, Rate

ONE = Parallel()
SEEN = (Evidence("test", "by hand", "seen"),)
HIDDEN, LAYERS, ROWS = 4096, 8, 32000
DENSE: Mapping[str, Any] = {
    "model_type": "llama", "num_hidden_layers": LAYERS, "hidden_size": HIDDEN, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": ROWS,
}  # fmt: skip
MOE = {
    **DENSE, "model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2,
}  # fmt: skip
ATTENTION = (("q_proj", HIDDEN), ("k_proj", 1024), ("v_proj", 1024), ("o_proj", HIDDEN))
MLP = (("gate_proj", 14336, HIDDEN), ("up_proj", 14336, HIDDEN), ("down_proj", HIDDEN, 14336))


def tensors(moe: bool = False) -> tuple[Tensor, ...]:
    found = [
        Tensor("model.embed_tokens.weight", (ROWS, HIDDEN), "BF16"),
        Tensor("lm_head.weight", (ROWS, HIDDEN), "BF16"),
    ]
    for at in range(LAYERS):
        name = f"model.layers.{at}"
        found += [
            Tensor(f"{name}.self_attn.{each}.weight", (rows, HIDDEN), "BF16") for each, rows in ATTENTION
        ]
        if moe:
            experts = f"{name}.block_sparse_moe.experts.*"
            found += [
                Tensor(f"{experts}.{w}.weight", shape, "BF16", 8)
                for w, *shape_ in MLP
                for shape in [tuple(shape_)]
            ]
        else:
            found += [
                Tensor(f"{name}.mlp.{each}.weight", (rows, columns), "BF16") for each, rows, columns in MLP
            ]
    return tuple(found)


def model(moe: bool = False) -> Model:
    config = MOE if moe else DENSE
    facts: dict[str, Any] = dict.fromkeys(
        ("revision", "files", "parameters", "tokenizer", "processor", "chat_template", "weight_format",
         "architectures", "auto_map", "nested", "mtp_layers", "gguf_architecture"), ONLY_CONFIG,
    )  # fmt: skip
    return Model(
        "small", "config", **facts, config=Known(config, SEEN), model_type=Known(config["model_type"], SEEN),
        quantization=Known(None, SEEN), tensors=Known(tensors(moe), SEEN),
    )  # fmt: skip


def machine(name: str = "h200") -> Machine:
    found = profile(name)
    assert found is not None
    return found


def asked(
    machines: Sequence[Machine], parallel: Parallel = ONE, moe: bool = False, **options: object
) -> Fact[Speed]:
    """Every machine gives one accelerator."""
    ranks = tuple(
        Rank(
            at,
            at % parallel.tp,
            at // parallel.tp % parallel.pp,
            at // parallel.tp // parallel.pp,
            f"m{at}",
            0,
        )
        for at in range(parallel.ranks)
    )
    layers = tuple(LAYERS // parallel.pp for _ in range(parallel.pp))
    devices = tuple(
        Device(machines[at % len(machines)], 0, 0, 0, None, False, "") for at in range(parallel.ranks)
    )
    return speed(Request(model(moe), "1.0", Placement(parallel, ranks, layers), devices, options))


def known(found: Fact[Speed]) -> Speed:
    assert isinstance(found, Known), found
    return found.value


def test_the_bound_is_bandwidth_over_the_bytes_of_one_step() -> None:
    attention = HIDDEN * (2 * HIDDEN + 2 * 1024)
    read = 2 * (LAYERS * (attention + 3 * HIDDEN * 14336) + ROWS * HIDDEN)
    found = known(asked([machine()]))
    assert found.decode_bound == pytest.approx(4800e9 / read, rel=1e-9)
    assert found.decode.high < found.decode_bound
    assert found.decode.low < found.decode.value < found.decode.high


def test_a_token_reads_only_the_experts_that_it_chooses() -> None:
    dense, moe = known(asked([machine()])), known(asked([machine()], moe=True))
    attention = HIDDEN * (2 * HIDDEN + 2 * 1024)
    read = 2 * (LAYERS * (attention + 2 * 3 * HIDDEN * 14336) + ROWS * HIDDEN)
    assert moe.decode_bound == pytest.approx(4800e9 / read, rel=1e-9)
    assert moe.decode.value < dense.decode.value
    many = known(asked([machine()], moe=True, max_num_seqs=64)).saturated
    few = known(asked([machine()], moe=True, max_num_seqs=2)).saturated
    assert few.value < many.value < 32 * few.value


def test_a_slow_network_costs_what_its_messages_take() -> None:
    fast, slow = (
        machine("dgx-spark"),
        replace(machine("dgx-spark"), inter_node=Known("Ethernet, 1.25 GB/s each way", SEEN)),
    )
    two = Parallel(tp=2)
    assert known(asked([slow], two)).decode.value < known(asked([fast], two)).decode.value
    one = known(asked([fast]))
    assert known(asked([fast], two)).decode.value > one.decode.value
    assert known(asked([fast], two)).decode_bound == pytest.approx(2 * one.decode_bound)


def test_an_unknown_network_widens_the_interval() -> None:
    missing = Missing(Cause.UNAVAILABLE, "not stated")
    stated = known(asked([machine("dgx-spark")], Parallel(tp=2))).decode
    unstated = known(asked([replace(machine("dgx-spark"), inter_node=missing)], Parallel(tp=2))).decode
    assert unstated.low < stated.low
    assert "a network that is not stated" in unstated.why
    assert "not stated" not in stated.why
    assert unstated.high >= stated.high


def test_stages_help_prompts_and_not_one_sequence() -> None:
    one, two = known(asked([machine()])), known(asked([machine()], Parallel(pp=2)))
    assert two.decode.value < one.decode.value
    assert two.prefill.value > one.prefill.value


def test_the_slowest_accelerator_counts() -> None:
    mixed = known(asked([machine("h200"), machine("dgx-spark")], Parallel(tp=2)))
    alike = known(asked([machine("dgx-spark")], Parallel(tp=2)))
    assert mixed.decode_bound == pytest.approx(alike.decode_bound)


def test_replicas_add_up_only_where_there_is_enough_to_do() -> None:
    one, two = known(asked([machine()])), known(asked([machine()], Parallel(dp=2)))
    assert two.decode_bound == pytest.approx(one.decode_bound)
    assert two.prefill.value > 1.9 * one.prefill.value


def test_eager_mode_waits_for_the_host() -> None:
    eager = known(asked([machine()], enforce_eager=True))
    assert eager.decode.value < known(asked([machine()])).decode.value
    assert eager.limit == "starting kernels"


def test_a_rate_that_is_not_known_is_missing_and_named() -> None:
    found = asked([replace(machine(), bandwidth=Missing(Cause.UNAVAILABLE, "profile:x states no bandwidth"))])
    assert isinstance(found, Missing)
    assert "bandwidth" in found.why


def test_without_a_rate_of_computation_prefill_is_bound_by_nothing_known() -> None:
    found = known(asked([replace(machine(), compute=Missing(Cause.UNAVAILABLE, "not stated"))]))
    assert found.prefill_bound == 0
    assert "not stated" in found.prefill.why
    known_rate = known(asked([machine()])).prefill
    assert found.prefill.low < known_rate.value < found.prefill.high
    stated = known(asked([replace(machine(), compute=Known(Compute(fp8=1978 * 10**12), SEEN))]))
    assert stated.prefill_bound == pytest.approx(known(asked([machine()])).prefill_bound, rel=1e-3)


def test_links_are_read_from_a_machine_s_words() -> None:
    assert rate_of("NVLink, 450 GB/s each way") == 450e9
    assert rate_of("RoCE, 3 x 200 Gb/s an accelerator") == 75e9
    assert rate_of("XGMI") is None
    assert inside(machine("h200")).name == "NVLink"
    assert between([machine("dgx-spark")]).name == "RDMA"
    assert between([machine("dgx-spark"), machine("h200")]).rate.low < 25e9


def test_an_all_reduce_takes_its_latency_and_its_bytes() -> None:
    link = between([machine("dgx-spark")])
    small, large = link.reduce(8192, 2, "value"), link.reduce(1 << 30, 2, "value")
    assert small == pytest.approx(45e-6, rel=0.1)
    assert large == pytest.approx((1 << 30) / (0.7 * 25e9), rel=0.01)
    assert link.reduce(8192, 1, "value") == 0
    assert link.reduce(8192, 8, "value") > 2.5 * small


@pytest.mark.parametrize("name", ["h200", "dgx-spark", "b200", "rtx-4090", "l4"])
def test_decode_never_passes_the_bound(name: str) -> None:
    found = known(asked([machine(name)]))
    assert found.decode.high <= found.decode_bound


def test_bandwidth_scales_what_waits_for_memory() -> None:
    base = machine("dgx-spark")
    assert isinstance(base.bandwidth, Known)
    double = replace(base, bandwidth=Known(Rate(2 * base.bandwidth.value.per_second), SEEN))
    slow, fast = known(asked([base])), known(asked([double]))
    assert slow.limit == "memory bandwidth"
    assert fast.decode_bound == pytest.approx(2 * slow.decode_bound)


def test_speculation_is_left_out_and_that_is_said() -> None:
    assert "speculation" in known(asked([machine()], speculative_config='{"method": "mtp"}')).decode.why


def test_a_hop_between_stages_takes_its_time() -> None:
    fast = machine("dgx-spark")
    slow = replace(fast, inter_node=Known("Ethernet, 0.01 GB/s each way", SEEN))
    assert (
        known(asked([slow], Parallel(pp=2))).prefill.value
        < known(asked([fast], Parallel(pp=2))).prefill.value
    )
    assert (
        known(asked([slow], Parallel(pp=2))).decode.value < known(asked([fast], Parallel(pp=2))).decode.value
    )


def test_spread_experts_are_waited_for_where_most_of_the_chosen_lie() -> None:
    whole, spread = Pool(128, 8, 1, 1.0, 1.0), Pool(128, 8, 8, 1.0, 1.0)
    assert whole.read(1) == pytest.approx(8)
    assert 1 < spread.read(1) < 8
    assert whole.read(10**6) == pytest.approx(128)
    assert spread.read(10**6) == pytest.approx(16)
    assert Pool(8, 2, 1, 1.0, 1.0).read(16) == pytest.approx(8 * (1 - 0.75**16))


def test_replicas_that_share_experts_wait_for_each_other() -> None:
    alone, shared = (
        known(asked([machine()], moe=True)),
        known(asked([machine()], Parallel(dp=2, ep=2), moe=True)),
    )
    assert shared.decode_bound >= alone.decode_bound
    apart = known(asked([machine()], Parallel(dp=2), moe=True))
    assert shared.saturated.value > apart.saturated.value / 2
    assert "messages" not in alone.limit


def test_no_token_chooses_more_experts_than_there_are() -> None:
    odd = replace(model(moe=True), config=Known({**MOE, "num_experts_per_tok": 1000}, SEEN))
    place = Placement(ONE, (Rank(0, 0, 0, 0, "m0", 0),), (LAYERS,))
    device = Device(machine(), 0, 0, 0, None, False, "")
    assert known(speed(Request(odd, "1.0", place, (device,)))).prefill.value > 0
