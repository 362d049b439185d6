"""moe-backend-runs, every branch: kernels for fused experts that are named, on a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from quant_world import gpu, judged, quantization, skipped
from small_world import build, case, model, seen

from canserve.checks.case import Case, Wish
from canserve.checks.machine.moe_backend import MOE_BACKEND
from canserve.facts import Known
from canserve.subjects.build import CAPABILITIES, MoeBackend, Site
from canserve.verdict import No, Unknown, Verdict, Yes

EXPERTS = {
    "model_type": "qwen3_moe", "num_hidden_layers": 2, "hidden_size": 512, "num_attention_heads": 4,
    "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 1024, "vocab_size": 1000, "num_experts": 8,
    "num_experts_per_tok": 2, "moe_intermediate_size": 256, "decoder_sparse_step": 1, "norm_topk_prob": True,
}  # fmt: skip
DENSE = {key: value for key, value in EXPERTS.items() if "expert" not in key} | {"model_type": "qwen3"}
ALL, NEVER, OPEN = (dict.fromkeys(CAPABILITIES, runs) for runs in (True, False, None))
HOPPER: Mapping[int, bool | None] = {tenfold: tenfold == 90 for tenfold in CAPABILITIES}


def kernels(name: str, oracle: str, runs: Mapping[int, bool | None], *methods: str) -> MoeBackend:
    return MoeBackend(
        name, oracle, frozenset(methods), (f"{name}-kernel",) if name else (), runs, Site("o.py", 3)
    )


TRITON, TRITON_PLAIN = kernels("triton", "eight", ALL, "fp8"), kernels("triton", "plain", ALL, "")
FAST, FAST_PLAIN = kernels("fast", "eight", HOPPER, "fp8"), kernels("fast", "plain", NEVER, "")
BOTH = (TRITON, TRITON_PLAIN, FAST, FAST_PLAIN)


def asking(
    name: str, *found: MoeBackend, method: str | None = "fp8", capability: str = "9.0", **rest: Any
) -> Case:
    config = rest.pop("config", EXPERTS)
    quant = None if method is None else quantization(method)
    made = model(
        model_type=config["model_type"], config=Known(config, seen()), quantization=Known(quant, seen())
    )
    wish = Wish(flags={"--moe_backend": name} | rest.pop("more", {}))
    return case(made, build(moe_backends=Known(found, seen())), machine=gpu(capability), wish=wish, **rest)


@pytest.mark.parametrize(
    ("the_case", "expected"),
    [
        (asking("triton", *BOTH), Yes),
        (asking("triton", *BOTH, method=None, capability="12.1"), Yes),
        (asking("fast", *BOTH, capability="12.1"), No),
        (asking("fast", *BOTH, method=None), No),
        (asking("fast", *BOTH), Unknown),  # experts that are left out of the quantization would be refused
        (asking("odd", *BOTH, kernels("odd", "other", ALL, "awq")), No),
        (
            asking("odd", *BOTH, kernels("odd", "other", ALL, "awq"), kernels("", "open", OPEN, "fp8")),
            Unknown,
        ),
        (asking("fast", *BOTH, kernels("", "open", OPEN, "fp8"), capability="12.1"), Unknown),
        (asking("fast", *BOTH, kernels("", "open", OPEN, "awq"), capability="12.1"), No),
        (asking("fast", kernels("fast", "eight", OPEN, "fp8")), Unknown),
    ],
)
def test_what_is_named(the_case: Case, expected: type[Verdict]) -> None:
    assert isinstance(judged(MOE_BACKEND, the_case), expected)


def test_a_no_says_what_would_do() -> None:
    verdict = judged(MOE_BACKEND, asking("fast", *BOTH, capability="12.1"))
    assert isinstance(verdict, No)
    assert verdict.because == "fast: none of its kernels (fast-kernel) runs on compute capability 12.1"
    assert verdict.fix == "leave it out, or use triton"


@pytest.mark.parametrize(
    ("the_case", "why"),
    [
        (asking("auto", *BOTH), "no kernels for fused experts are named"),
        (asking("fast", *BOTH, config=DENSE), "the model has no experts"),
        (asking("fast"), "no rules of the build for fast were read"),
        (asking("fast", *BOTH, method="awq"), "which kernels"),
        (asking("fast", *BOTH, more={"--enable-lora": None}), "other kernels may be taken"),
    ],
)
def test_where_it_is_not_asked(the_case: Case, why: str) -> None:
    assert why in skipped(MOE_BACKEND, the_case)
