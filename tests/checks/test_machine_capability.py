"""quantization-capability-met and combination-not-known-broken, every branch."""

from __future__ import annotations

from typing import Any

import pytest
from quant_world import (
    EXPERTS,
    FP8_BLOCKS,
    FP8_TENSOR,
    INT4,
    NVFP4,
    UNREAD,
    gpu,
    judged,
    listing,
    machine,
    method,
    quantization,
    quantized,
    skipped,
)
from small_world import build, case, model, seen

from canserve.checks.machine.broken import NOT_BROKEN
from canserve.checks.machine.capability import CAPABILITY
from canserve.facts import Known
from canserve.subjects.build import Build
from canserve.subjects.model import Scheme
from canserve.verdict import No, Unknown, Verdict, Yes

CT = "compressed-tensors"
FP8 = quantization("fp8", FP8_TENSOR)
BLOCKS = quantization("fp8", FP8_BLOCKS)


def on(capability: str, quant: Any, built: Build, **rest: Any) -> Verdict:
    return judged(CAPABILITY, quantized(quant, built, machine=gpu(capability), **rest))


def test_without_a_machine_it_is_skipped() -> None:
    assert "--on" in skipped(CAPABILITY, quantized(FP8, listing(method("fp8"))))


def test_a_plain_model_is_not_judged_but_a_wish_is() -> None:
    built = listing(method("fp8", 89))
    assert "not quantized" in skipped(CAPABILITY, quantized(None, built, machine=gpu("8.0")))
    assert isinstance(on("8.0", None, built, wish="fp8"), No)
    assert isinstance(on("9.0", None, built, wish="fp8"), Yes)


def test_the_builds_own_minimum_decides() -> None:
    built = listing(method("fp8", 89))
    verdict = on("8.0", FP8, built)
    assert isinstance(verdict, No) and "8.9" in verdict.because and "8.0" in verdict.because
    assert isinstance(on("8.9", FP8, built), Yes)
    assert isinstance(on("12.1", FP8, listing(method("fp8", None))), Yes)


def test_of_several_names_one_that_the_gpu_can_run_is_enough() -> None:
    gptq = quantization("gptq", INT4, aliases=("gptq_marlin",))
    both = listing(method("gptq", 60), method("gptq_marlin", 80))
    assert isinstance(on("7.5", gptq, both), Yes)
    assert isinstance(on("7.5", gptq, listing(method("gptq_marlin", 80))), No)


def test_a_minimum_that_was_not_read_is_unknown() -> None:
    assert isinstance(on("8.0", FP8, listing(method("fp8", UNREAD))), Unknown)
    gptq = quantization("gptq", INT4, aliases=("gptq_marlin",))
    half = listing(method("gptq", UNREAD), method("gptq_marlin", 80))
    assert isinstance(on("7.5", gptq, half), Unknown)
    assert isinstance(on("8.0", gptq, half), Yes)


def test_an_unlisted_method_is_another_checks_business() -> None:
    case_ = quantized(FP8, listing(method("awq")), machine=gpu("8.0"))
    assert "quantization-registered" in skipped(CAPABILITY, case_)


def test_accelerators_without_a_capability() -> None:
    lists = Known({"amd": ("fp8", "gptq")}, seen())
    built = listing(method("fp8"), method("awq"), vendor_quantization=lists)
    amd = machine(vendor="amd", capability=Known(None, seen()))
    assert isinstance(judged(CAPABILITY, quantized(FP8, built, machine=amd)), Yes)
    verdict = judged(CAPABILITY, quantized(quantization("awq", INT4), built, machine=amd))
    assert isinstance(verdict, No) and "fp8, gptq" in verdict.because
    tpu = machine(vendor="google", capability=Known(None, seen()))
    assert isinstance(judged(CAPABILITY, quantized(FP8, built, machine=tpu)), Unknown)
    assert isinstance(judged(CAPABILITY, quantized(FP8, listing(method("fp8")), machine=amd)), Unknown)
    odd = machine(capability=Known(None, seen()))
    assert "no compute capability" in skipped(CAPABILITY, quantized(FP8, built, machine=odd))


def test_a_capability_that_is_not_stated_is_unknown() -> None:
    assert isinstance(judged(CAPABILITY, quantized(FP8, listing(method("fp8")), machine=machine())), Unknown)


@pytest.mark.parametrize(
    ("engine", "version", "capability", "expected"),
    [
        ("vllm", "0.8.5", "8.0", No),
        ("vllm", "0.8.5", "8.9", Yes),
        ("vllm", "0.9.0", "8.0", Yes),
        ("vllm", "0.9.0rc1.dev12", "8.0", Unknown),
        ("vllm", "0.14.0rc2.dev262", "8.0", Yes),
        ("sglang", "0.4.6.post1", "8.6", No),
        ("sglang", "0.5.5", "8.0", Yes),
        ("other", "0.8.5", "8.0", Yes),
    ],
)
def test_fp8_in_blocks_on_older_gpus(engine: str, version: str, capability: str, expected: type) -> None:
    built = listing(method("fp8", 80), engine=engine, version=version)
    assert isinstance(on(capability, BLOCKS, built), expected)


@pytest.mark.parametrize(
    ("engine", "version", "expected"),
    [
        ("vllm", "0.8.5", No),
        ("vllm", "0.9.0", Yes),
        ("sglang", "0.5.5", No),
        ("sglang", "0.5.23", No),
        ("sglang", "0.5.24", Unknown),
        ("sglang", "0.5.8.dev3", Unknown),
        ("other", "1.0", Yes),
    ],
)
def test_fp8_experts_on_older_gpus(engine: str, version: str, expected: type) -> None:
    built = listing(method("fp8", 80), engine=engine, version=version)
    verdict = on("8.0", FP8, built, config=EXPERTS)
    assert isinstance(verdict, expected), verdict
    assert isinstance(on("9.0", FP8, built, config=EXPERTS), Yes)
    if engine == "sglang":
        assert isinstance(on("8.0", FP8, built), Yes), "dense FP8 goes through Marlin"


def test_fp8_experts_in_compressed_tensors_are_limited_too_and_integers_are_not() -> None:
    built = listing(method(CT, 70, minima=MINIMA), engine="vllm", version="0.8.5")
    assert isinstance(on("8.0", quantization(CT, FP8_TENSOR), built, config=EXPERTS), No)
    assert isinstance(on("8.0", quantization(CT, FP8_TENSOR), built), Yes)
    assert isinstance(on("8.0", quantization(CT, INT4), built, config=EXPERTS), Yes)


def test_online_fp8_of_experts_is_limited_too() -> None:
    built = listing(method("fp8", 80), engine="vllm", version="0.8.5")
    assert isinstance(on("8.0", None, built, wish="fp8", config=EXPERTS), No)
    assert isinstance(on("8.0", None, built, wish="fp8"), Yes)


MINIMA = {"CompressedTensorsW8A8Fp8": 89, "CompressedTensorsW8A16Fp8": 80, "CompressedTensorsW4A4Fp4": 100}


def tensors(minima: Any = MINIMA) -> Build:
    return listing(method(CT, 70, minima=minima))


def test_classes_for_schemes_have_minima_of_their_own() -> None:
    assert isinstance(on("9.0", quantization(CT, FP8_TENSOR), tensors()), Yes)
    verdict = on("7.5", quantization(CT, FP8_TENSOR), tensors())
    assert isinstance(verdict, No) and "8.0" in verdict.because
    verdict = on("9.0", quantization(CT, NVFP4), tensors())
    assert isinstance(verdict, No) and "10.0" in verdict.because


def test_older_gpus_keep_only_the_weights_quantized() -> None:
    verdict = on("8.0", quantization(CT, FP8_TENSOR), tensors())
    assert isinstance(verdict, Yes) and "16-bit activations" in verdict.because
    with_weights = tensors({**MINIMA, "CompressedTensorsW4A16Fp4": 80})
    assert isinstance(on("8.0", quantization(CT, NVFP4), with_weights), Yes)
    blocks = Scheme(8, "float", "block", None, (128, 128), 8, "float", True)
    assert isinstance(on("8.0", quantization(CT, blocks), tensors()), Unknown)


def test_minima_that_were_not_read_leave_the_hardware_to_decide() -> None:
    unread = listing(method(CT, 70))
    assert isinstance(on("9.0", quantization(CT, FP8_TENSOR), unread), Yes)
    assert isinstance(on("8.0", quantization(CT, FP8_TENSOR), unread), Unknown)
    assert isinstance(on("12.1", quantization(CT, NVFP4), unread), Yes)
    assert isinstance(on("9.0", quantization(CT, NVFP4), unread), Unknown)
    assert isinstance(on("7.5", quantization(CT, INT4), unread), Yes), "integers need no type of their own"


def test_the_worst_scheme_decides() -> None:
    assert isinstance(on("9.0", quantization(CT, FP8_TENSOR, NVFP4), tensors()), No)


# combination-not-known-broken ----------------------------------------------------------------------


def broken(
    version: str, capability: str, architecture: str = "DeepseekV32ForCausalLM", engine: str = "vllm"
) -> Any:
    built = listing(engine=engine, version=version)
    return case(model(architecture), built, machine=gpu(capability))


def test_a_known_failure_is_a_no_and_anything_else_says_nothing() -> None:
    verdict = judged(NOT_BROKEN, broken("0.17.1", "12.1"))
    assert isinstance(verdict, No) and "0.24.0" in verdict.fix
    for fine in (
        broken("0.24.0", "12.1"),
        broken("0.17.1", "9.0"),
        broken("0.17.1", "12.1", "LlamaForCausalLM"),
        broken("0.17.1", "12.1", engine="eng"),
    ):
        assert "no combination" in skipped(NOT_BROKEN, fine)


def test_a_development_build_at_the_edge_is_unknown() -> None:
    assert isinstance(judged(NOT_BROKEN, broken("0.24.0rc1.dev3", "12.1")), Unknown)
    assert isinstance(judged(NOT_BROKEN, broken("0.17.1rc1.dev25", "12.1")), No)


def test_facts_that_are_missing_make_it_unknown() -> None:
    built = listing(engine="vllm", version="0.17.1")
    unread = case(model(architectures=UNREAD), built, machine=gpu("12.1"))
    assert isinstance(judged(NOT_BROKEN, unread), Unknown)
    assert isinstance(
        judged(NOT_BROKEN, case(model("DeepseekV32ForCausalLM"), built, machine=machine())), Unknown
    )
    assert "--on" in skipped(NOT_BROKEN, case(model(), build()))
