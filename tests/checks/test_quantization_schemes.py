"""quantization-scheme-known, every branch."""

from __future__ import annotations

import pytest
from quant_world import (
    EXPERTS,
    FP8_BLOCKS,
    FP8_TENSOR,
    INT4,
    NVFP4,
    UNREAD,
    judged,
    listing,
    method,
    quantization,
    quantized,
    skipped,
)

from canserve.checks.quantization.schemes import SCHEME_KNOWN
from canserve.subjects.build import Build
from canserve.subjects.model import Scheme
from canserve.verdict import No, Unknown, Yes

CT = "compressed-tensors"
OLD = ("CompressedTensorsW8A8Fp8", "CompressedTensorsW8A8Int8", "CompressedTensorsWNA16")
NEW = (*OLD, "CompressedTensorsW4A4Fp4", "CompressedTensorsW8A8Fp8MoEMethod")


def tensors(*classes: str, engine: str = "vllm", version: str = "0.14.0") -> Build:
    return listing(method(CT, schemes=classes), engine=engine, version=version)


def test_plain_models_and_single_ways_are_not_judged() -> None:
    assert "not quantized" in skipped(SCHEME_KNOWN, quantized(None, tensors(*OLD)))
    assert "one way" in skipped(SCHEME_KNOWN, quantized(quantization("awq", INT4), listing(method("awq"))))


def test_an_unlisted_method_is_another_checks_business() -> None:
    because = skipped(SCHEME_KNOWN, quantized(quantization(CT, NVFP4), listing(method("fp8"))))
    assert "quantization-registered" in because


def test_a_wish_for_another_method_is_not_judged_here() -> None:
    case = quantized(quantization(CT, FP8_TENSOR), tensors(*OLD), "w8a8_fp8")
    assert "another method" in skipped(SCHEME_KNOWN, case)


def test_a_build_that_knows_the_class_is_a_yes() -> None:
    verdict = judged(SCHEME_KNOWN, quantized(quantization(CT, NVFP4), tensors(*NEW)))
    assert isinstance(verdict, Yes) and "CompressedTensorsW4A4Fp4" in verdict.because


def test_a_build_without_the_class_is_a_no() -> None:
    verdict = judged(SCHEME_KNOWN, quantized(quantization(CT, NVFP4), tensors(*OLD)))
    assert isinstance(verdict, No)
    assert "NVFP4 W4A4" in verdict.because and "CompressedTensorsWNA16" in verdict.fix


def test_every_scheme_of_the_checkpoint_must_be_known() -> None:
    assert isinstance(judged(SCHEME_KNOWN, quantized(quantization(CT, INT4, NVFP4), tensors(*OLD))), No)
    assert isinstance(judged(SCHEME_KNOWN, quantized(quantization(CT, INT4, NVFP4), tensors(*NEW))), Yes)


def test_a_renamed_class_makes_it_unknown() -> None:
    verdict = judged(
        SCHEME_KNOWN, quantized(quantization(CT, NVFP4), tensors(*OLD, "CompressedTensorsW4A4NvFp4"))
    )
    assert isinstance(verdict, Unknown) and "new name" in verdict.because


def test_a_build_none_of_whose_classes_is_known_has_an_unknown_form() -> None:
    verdict = judged(SCHEME_KNOWN, quantized(quantization(CT, NVFP4), tensors("SomethingElse")))
    assert isinstance(verdict, Unknown) and "no rule knows" in verdict.ask


def test_classes_that_could_not_be_read_are_unknown() -> None:
    built = listing(method(CT, schemes=UNREAD))
    assert isinstance(judged(SCHEME_KNOWN, quantized(quantization(CT, NVFP4), built)), Unknown)


def test_a_scheme_no_rule_knows_is_unknown() -> None:
    odd = Scheme(7, "float", "spiral", None, None, 3, "int", None)
    verdict = judged(SCHEME_KNOWN, quantized(quantization(CT, odd), tensors(*NEW)))
    assert isinstance(verdict, Unknown) and "float7" in verdict.because


def test_a_checkpoint_that_does_not_describe_itself_is_unknown() -> None:
    assert isinstance(judged(SCHEME_KNOWN, quantized(quantization(CT), tensors(*NEW))), Unknown)


@pytest.mark.parametrize(
    ("version", "expected"),
    [("0.10.2", No), ("0.11.0", Yes), ("0.11.0rc1.dev5", Unknown), ("0.33.0", Yes), ("fork", Unknown)],
)
def test_a_class_that_learnt_blocks_later(version: str, expected: type) -> None:
    verdict = judged(SCHEME_KNOWN, quantized(quantization(CT, FP8_BLOCKS), tensors(*OLD, version=version)))
    assert isinstance(verdict, expected), verdict


def test_a_class_borrowed_from_another_engine_is_unknown() -> None:
    for version, expected in (("0.5.3.post1", Unknown), ("0.5.4", Yes)):
        built = tensors(*OLD, engine="sglang", version=version)
        assert isinstance(judged(SCHEME_KNOWN, quantized(quantization(CT, INT4), built)), expected)


def test_a_class_of_that_name_in_another_engine_does_not_count() -> None:
    weights_only = Scheme(4, "float", "tensor_group", 16, None, None, None, None)
    built = tensors(*OLD, "CompressedTensorsW4A4Fp4", engine="sglang", version="0.5.9")
    verdict = judged(SCHEME_KNOWN, quantized(quantization(CT, weights_only), built))
    assert isinstance(verdict, No) and "CompressedTensorsW4A16Fp4" in verdict.because
    later = tensors(*OLD, "CompressedTensorsW4A16Fp4", engine="sglang", version="0.5.22")
    assert isinstance(judged(SCHEME_KNOWN, quantized(quantization(CT, weights_only), later)), Yes)


def test_experts_need_a_class_of_their_own() -> None:
    quant = quantization(CT, NVFP4)
    dense, experts = quantized(quant, tensors(*NEW)), quantized(quant, tensors(*NEW), config=EXPERTS)
    assert isinstance(judged(SCHEME_KNOWN, dense), Yes)
    verdict = judged(SCHEME_KNOWN, experts)
    assert isinstance(verdict, No) and "experts" in verdict.because
    built = tensors(*NEW, "CompressedTensorsW4A4MoeMethod")
    assert isinstance(judged(SCHEME_KNOWN, quantized(quant, built, config=EXPERTS)), Yes)


def test_a_class_for_experts_alone_may_be_all_that_is_needed() -> None:
    built = tensors("CompressedTensorsW8A8Fp8", "CompressedTensorsWNA16MoEMethod")
    verdict = judged(SCHEME_KNOWN, quantized(quantization(CT, INT4), built, config=EXPERTS))
    assert isinstance(verdict, Unknown) and "outside the experts" in verdict.because
    assert isinstance(judged(SCHEME_KNOWN, quantized(quantization(CT, INT4), built)), No)


def test_experts_that_stay_unquantized_need_none() -> None:
    quant = quantization(CT, NVFP4, ignored=("re:.*mlp.experts.*",))
    assert isinstance(judged(SCHEME_KNOWN, quantized(quant, tensors(*NEW), config=EXPERTS)), Yes)


def test_shared_experts_that_stay_unquantized_do_not_spare_the_others() -> None:
    quant = quantization(CT, NVFP4, ignored=("re:.*shared_expert_gate", "model.layers.0.mlp.shared_experts"))
    assert isinstance(judged(SCHEME_KNOWN, quantized(quant, tensors(*NEW), config=EXPERTS)), No)


def test_builds_whose_classes_do_not_tell_experts_apart_are_not_held_to_it() -> None:
    built = tensors(*OLD, "CompressedTensorsW4A4Fp4")
    assert isinstance(judged(SCHEME_KNOWN, quantized(quantization(CT, NVFP4), built, config=EXPERTS)), Yes)


def test_experts_are_found_in_a_nested_config() -> None:
    config = {"text_config": {"num_local_experts": 8}}
    assert isinstance(
        judged(SCHEME_KNOWN, quantized(quantization(CT, NVFP4), tensors(*NEW), config=config)), No
    )
    dense = {"text_config": {"num_local_experts": 1}}
    assert isinstance(
        judged(SCHEME_KNOWN, quantized(quantization(CT, NVFP4), tensors(*NEW), config=dense)), Yes
    )


def test_fp8_in_blocks_needs_the_parameter() -> None:
    blocks = quantization("fp8", FP8_BLOCKS)
    old = listing(method("fp8", schemes=("Fp8Config", "Fp8MoEMethod")))
    new = listing(method("fp8", schemes=("Fp8Config", "weight_block_size")))
    assert isinstance(judged(SCHEME_KNOWN, quantized(blocks, old)), No)
    assert isinstance(judged(SCHEME_KNOWN, quantized(blocks, new)), Yes)
    assert isinstance(judged(SCHEME_KNOWN, quantized(quantization("fp8", FP8_TENSOR), old)), Yes)


def test_modelopt_goes_by_its_algorithms() -> None:
    classes = ("ModelOptFp8Config", "ModelOptNvFp4Config")
    fp4 = Scheme(4, "float", "group", 16, None, 4, "float", None, format="NVFP4")
    fp8 = Scheme(8, "float", "tensor", None, None, 8, "float", False, format="FP8")
    built = listing(method("modelopt", schemes=classes), method("modelopt_mixed", schemes=classes))
    assert isinstance(
        judged(SCHEME_KNOWN, quantized(quantization("modelopt", fp4, algorithms=("NVFP4",)), built)), Yes
    )
    mixed = quantization("modelopt_mixed", fp8, fp4, algorithms=("MIXED_PRECISION", "FP8", "NVFP4"))
    verdict = judged(SCHEME_KNOWN, quantized(mixed, built))
    assert isinstance(verdict, No) and "mixed" in verdict.because
    able = listing(method("modelopt_mixed", schemes=(*classes, "ModelOptMixedPrecisionConfig")))
    assert isinstance(judged(SCHEME_KNOWN, quantized(mixed, able)), Yes)


def test_a_class_that_took_over_others_is_unknown() -> None:
    by_channel = Scheme(
        8, "float", "channel", None, None, 8, "float", True, format="FP8_PER_CHANNEL_PER_TOKEN"
    )
    quant = quantization("modelopt", by_channel)
    classes = ("ModelOptFp8Config", "ModelOptLinearMethod")
    for version, expected in (("0.30.0", Yes), ("0.13.0", Unknown), ("0.30.0.dev4", Unknown)):
        built = listing(method("modelopt", schemes=classes), engine="vllm", version=version)
        assert isinstance(judged(SCHEME_KNOWN, quantized(quant, built)), expected), version
