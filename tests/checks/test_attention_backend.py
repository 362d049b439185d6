"""attention-backend-available, every branch: which back end takes a kind of attention on a GPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from quant_world import UNREAD, backend, gpu, judged, machine, skipped
from small_world import build, case, model, seen

from canserve.checks.case import Case, Wish
from canserve.checks.machine.attention import ATTENTION
from canserve.facts import Known
from canserve.subjects.build import CAPABILITIES, HEAD_SIZES, AttentionBackend
from canserve.verdict import No, Unknown, Verdict, Yes

DENSE = {
    "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 512, "num_attention_heads": 4,
    "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 1024, "vocab_size": 1000,
}  # fmt: skip
LATENT = {
    "model_type": "deepseek_v3", "num_hidden_layers": 2, "hidden_size": 512, "num_attention_heads": 4,
    "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128, "q_lora_rank": 256,
    "intermediate_size": 1024, "moe_intermediate_size": 256, "n_routed_experts": 8, "num_experts_per_tok": 2,
    "n_shared_experts": 1, "first_k_dense_replace": 1, "moe_layer_freq": 1, "vocab_size": 1000,
}  # fmt: skip
SPARSE = {
    **LATENT,
    "model_type": "deepseek_v32",
    "index_n_heads": 64,
    "index_head_dim": 128,
    "index_topk": 2048,
}
GPT_OSS = {
    **DENSE, "model_type": "gpt_oss", "head_dim": 64, "num_local_experts": 4, "num_experts_per_tok": 2,
    "sliding_window": 128, "layer_types": ["sliding_attention", "full_attention"],
}  # fmt: skip


def end(name: str, runs: tuple[int, ...] = CAPABILITIES, **said: Any) -> AttentionBackend:
    sizes = said.pop("sizes", HEAD_SIZES)
    offered = said.pop("offered", True)
    open_sizes = said.pop("open_sizes", ())
    traits = {"mla": False, "sparse": False, "sinks": False} | said
    heads = {size: None if size in open_sizes else size in sizes for size in HEAD_SIZES}
    return replace(
        backend(name, runs, ("auto",)),
        traits=traits,
        head_sizes=Known(heads, seen()),
        offered=Known(dict.fromkeys(CAPABILITIES, offered), seen()),
    )


PLAIN = end("PLAIN", tuple(one for one in CAPABILITIES if one >= 80))
OLD = end("OLD", sizes=(64, 128), sinks=True)
MLA = end("MLA", mla=True, sizes=(576,))
SPARSE_MLA = end("SPARSE_MLA", (90, 100, 103), mla=True, sparse=True, sizes=(576,))


def asking(
    config: dict[str, Any], capability: str, *ends: AttentionBackend, flag: str | None = None, **rest: Any
) -> Case:
    facts = {"attention_backends": Known({one.name: one for one in ends}, seen())} | rest
    made = model(model_type=config["model_type"], config=Known(config, seen()))
    wish = Wish(flags={"--attention-backend": flag} if flag else {})
    return case(made, build(**facts), machine=gpu(capability), wish=wish)


ALL = (PLAIN, OLD, MLA, SPARSE_MLA)


@pytest.mark.parametrize(
    ("config", "capability", "ends", "expected"),
    [
        (DENSE, "9.0", ALL, Yes),
        (DENSE, "7.5", ALL, Yes),
        (DENSE, "7.5", (PLAIN, MLA), No),
        (LATENT, "8.0", ALL, Yes),
        (LATENT, "8.0", (PLAIN, OLD), No),
        (SPARSE, "9.0", ALL, Yes),
        (SPARSE, "8.0", ALL, No),
        (SPARSE, "12.1", ALL, No),
        (GPT_OSS, "8.0", ALL, Yes),
        (GPT_OSS, "8.0", (PLAIN, MLA), No),
        (GPT_OSS, "8.0", (end("ASKS", sinks=None), MLA), Unknown),
        (DENSE, "8.0", (end("ASKS", open_sizes=(128,)),), Unknown),
        (DENSE, "8.0", (end("FOUND", UNREAD),), Unknown),  # type: ignore[arg-type]
        (DENSE, "8.0", (end("SOMETIMES", offered=None),), Unknown),
        ({**DENSE, "head_dim": 96}, "8.0", (OLD,), No),
    ],
)
def test_of_those_the_build_considers(
    config: dict[str, Any], capability: str, ends: tuple[AttentionBackend, ...], expected: type[Verdict]
) -> None:
    verdict = judged(ATTENTION, asking(config, capability, *ends))
    assert isinstance(verdict, expected), verdict


def test_one_that_the_build_never_considers_by_itself_may_still_be_asked_for() -> None:
    hidden = end("HIDDEN", offered=False)
    assert isinstance(judged(ATTENTION, asking(DENSE, "7.5", PLAIN, hidden)), No)
    assert isinstance(judged(ATTENTION, asking(DENSE, "7.5", PLAIN, hidden, flag="hidden")), Yes)


def test_the_one_that_is_asked_for() -> None:
    refused = judged(ATTENTION, asking(GPT_OSS, "9.0", *ALL, flag="PLAIN"))
    assert isinstance(refused, No) and "no attention sinks" in refused.because and "OLD" in refused.fix
    latent = judged(ATTENTION, asking(DENSE, "9.0", *ALL, flag="MLA"))
    assert isinstance(latent, No) and "latent attention only" in latent.because
    assert isinstance(judged(ATTENTION, asking(DENSE, "9.0", *ALL, flag="plain")), Yes)
    old = judged(ATTENTION, asking(DENSE, "7.5", *ALL, flag="PLAIN"))
    assert isinstance(old, No) and "compute capability 7.5" in old.because
    assert isinstance(judged(ATTENTION, asking(DENSE, "9.0", *ALL, flag="NEVER_HEARD_OF")), Unknown)
    asks = end("ASKS", sinks=None)
    assert isinstance(judged(ATTENTION, asking(GPT_OSS, "9.0", asks, flag="ASKS")), Unknown)


def test_a_window_is_asked_for_only_where_the_build_compares_it() -> None:
    assert isinstance(judged(ATTENTION, asking(GPT_OSS, "9.0", OLD)), Yes)
    assert isinstance(judged(ATTENTION, asking(GPT_OSS, "9.0", end("WIDE", sinks=True, sliding=False))), No)


def test_what_is_not_known_is_not_judged() -> None:
    bare = backend("BARE", UNREAD, ("auto",))
    assert "no rules" in skipped(ATTENTION, asking(DENSE, "9.0", bare))
    assert "no rules" in skipped(ATTENTION, replace(asking(DENSE, "9.0"), build=build()))
    assert "layers are not known" in skipped(ATTENTION, asking({"model_type": "never"}, "9.0", *ALL))
    own = {**DENSE, "model_type": "mimo_v2_flash", "v_head_dim": 64}
    assert "own" in skipped(ATTENTION, asking(own, "9.0", *ALL)) or "not known" in skipped(
        ATTENTION, asking(own, "9.0", *ALL)
    )
    unknown = replace(asking(DENSE, "9.0", *ALL), machine=machine(capability=Known(None, seen())))
    assert "NVIDIA" in skipped(ATTENTION, unknown)
