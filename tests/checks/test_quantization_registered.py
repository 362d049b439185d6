"""quantization-registered, every branch."""

from __future__ import annotations

from quant_world import INT4, UNREAD, judged, listing, machine, method, quantization, quantized
from small_world import SmallHistory, build, case, model, seen

from canserve.checks.case import Wish
from canserve.checks.quantization.registered import REGISTERED
from canserve.facts import Known
from canserve.subjects.model import Scheme
from canserve.verdict import Finding, No, Unknown, Yes

FP8 = listing(method("fp8"), method("awq"))


class ListingHistory(SmallHistory):
    def first_listing(self, engine: str, table: str, name: str) -> str | None:
        return "2.0" if (table, name) == ("quantization", "mxfp4") else None


def test_a_plain_model_needs_nothing() -> None:
    verdict = judged(REGISTERED, quantized(None, FP8))
    assert isinstance(verdict, Yes) and "not quantized" in verdict.because


def test_a_listed_method_is_a_yes_and_cites_its_line() -> None:
    found = REGISTERED.judge(quantized(quantization("fp8"), FP8))
    assert isinstance(found, Finding) and isinstance(found.verdict, Yes)
    assert any(look.how == "eng/quantization.py:12" for look in found.evidence)


def test_any_name_that_loads_the_same_files_will_do() -> None:
    gptq = quantization("gptq", INT4, aliases=("gptq_marlin", "auto_gptq"))
    verdict = judged(REGISTERED, quantized(gptq, listing(method("auto_gptq"))))
    assert isinstance(verdict, Yes) and "auto_gptq" in verdict.because


def test_the_name_the_file_declares_counts() -> None:
    sparse = quantization("compressed-tensors", declared="SparseML")
    assert isinstance(judged(REGISTERED, quantized(sparse, listing(method("sparseml")))), Yes)


def test_a_stand_in_serves_only_what_it_can() -> None:
    marlin = listing(method("gptq_marlin"))
    three = Scheme(3, "int", "group", 128, None, None, None, None, True)
    wide = quantization("gptq", INT4, aliases=("gptq_marlin",))
    assert isinstance(judged(REGISTERED, quantized(wide, marlin)), Yes)
    odd = quantization("gptq", three, aliases=("gptq_marlin",))
    verdict = judged(REGISTERED, quantized(odd, marlin))
    assert isinstance(verdict, No) and "gptq_marlin only" in verdict.because
    assert isinstance(judged(REGISTERED, quantized(odd, listing(method("gptq"), method("gptq_marlin")))), Yes)


def test_an_absent_method_names_its_neighbours_and_its_first_release() -> None:
    built = listing(method("mxfp8"), method("fp8"))
    verdict = judged(REGISTERED, quantized(quantization("mxfp4"), built, history=ListingHistory()))
    assert isinstance(verdict, No)
    assert "mxfp4 is not among them" in verdict.because
    assert "eng>=2.0" in verdict.fix and "mxfp8" in verdict.fix


def test_a_method_that_left_without_a_rule_says_so() -> None:
    built = listing(method("fp8"), version="3.0")
    verdict = judged(REGISTERED, quantized(quantization("mxfp4"), built, history=ListingHistory()))
    assert isinstance(verdict, No) and "older release" in verdict.fix


def test_a_method_that_left_names_the_last_release() -> None:
    built = listing(method("fp8"), engine="vllm", version="0.30.0")
    verdict = judged(REGISTERED, quantized(quantization("bitsandbytes"), built))
    assert isinstance(verdict, No) and "vllm==0.27.1" in verdict.fix


def test_a_method_that_became_a_plugin_says_how_to_get_it() -> None:
    built = listing(method("fp8"), engine="vllm", version="0.30.0")
    verdict = judged(REGISTERED, quantized(quantization("gguf", declared="Q4_K_M"), built))
    assert isinstance(verdict, No) and "extra-quant" in verdict.fix and "Q4_K_M" in verdict.because


def test_an_installed_plugin_of_that_name_makes_it_unknown() -> None:
    plugin = Known(("vllm.general_plugins: vllm_gguf = vllm_gguf_plugin:register",), seen())
    verdict = judged(REGISTERED, quantized(quantization("gguf"), listing(method("fp8"), plugins=plugin)))
    assert isinstance(verdict, Unknown) and "vllm_gguf" in verdict.because


def test_a_table_that_could_not_be_read_is_unknown() -> None:
    verdict = judged(REGISTERED, quantized(quantization("fp8"), build(quantization=UNREAD)))
    assert isinstance(verdict, Unknown) and verdict.ask == "read it by hand"


def test_a_quantization_that_could_not_be_read_is_unknown() -> None:
    assert isinstance(judged(REGISTERED, case(model(quantization=UNREAD), FP8)), Unknown)


def test_a_row_of_another_platform_is_not_there() -> None:
    built = listing(method("gptq", guards=("is_npu()",)))
    assert isinstance(judged(REGISTERED, quantized(quantization("gptq", INT4), built)), No)


def test_a_row_under_a_platform_condition_follows_the_machine() -> None:
    built = listing(method("petit", guards=("current_platform.is_rocm()",)))
    quant = quantization("petit")
    assert isinstance(judged(REGISTERED, quantized(quant, built)), No)
    assert isinstance(judged(REGISTERED, quantized(quant, built, machine=machine(vendor="amd"))), Yes)


def test_a_condition_that_only_running_decides_is_unknown() -> None:
    built = listing(method("mxfp4", guards=("HAS_TRITON_KERNELS",)))
    verdict = judged(REGISTERED, quantized(quantization("mxfp4"), built))
    assert isinstance(verdict, Unknown) and "HAS_TRITON_KERNELS" in verdict.because


def test_online_quantization_of_a_plain_model() -> None:
    built = listing(method("fp8"), method("gptq"), method("novel"))
    assert isinstance(judged(REGISTERED, quantized(None, built, "fp8")), Yes)
    stored_only = judged(REGISTERED, quantized(None, built, "gptq"))
    assert isinstance(stored_only, No) and "leave --quantization out" in stored_only.fix
    assert isinstance(judged(REGISTERED, quantized(None, built, "novel")), Unknown)
    absent = judged(REGISTERED, quantized(None, built, "mxfp8"))
    assert isinstance(absent, No) and "--quantization mxfp8" in absent.because
    assert isinstance(judged(REGISTERED, quantized(None, built, "none")), Yes)


def test_online_quantization_under_a_condition_is_unknown() -> None:
    built = listing(method("fp8", guards=("HAS_FP8",)))
    assert isinstance(judged(REGISTERED, quantized(None, built, "fp8")), Unknown)


def test_a_wish_of_the_same_format_is_fine() -> None:
    built = listing(method("awq"), method("awq_marlin"))
    awq = quantization("awq", INT4, aliases=("awq_marlin", "auto_awq"))
    assert isinstance(judged(REGISTERED, quantized(awq, built, "awq_marlin")), Yes)
    assert isinstance(judged(REGISTERED, quantized(awq, built, "AWQ")), Yes)
    assert isinstance(judged(REGISTERED, quantized(awq, built, "auto_awq")), No), "the build lacks this name"


def test_a_wish_of_the_same_format_that_is_no_alias() -> None:
    built = listing(method("gptq"), method("bitblas"))
    gptq = quantization("gptq", INT4, aliases=("gptq_marlin",))
    assert isinstance(judged(REGISTERED, quantized(gptq, built, "bitblas")), Yes)


def test_a_wish_of_another_format_is_refused() -> None:
    verdict = judged(REGISTERED, quantized(quantization("fp8"), FP8, "awq"))
    assert isinstance(verdict, No) and "does not match" in verdict.because


def test_a_wish_that_loads_another_format_is_a_yes() -> None:
    built = listing(method("gptq"), method("moe_wna16"))
    assert isinstance(judged(REGISTERED, quantized(quantization("gptq", INT4), built, "moe_wna16")), Yes)


def test_a_wish_nobody_knows_is_unknown_when_listed_and_no_when_not() -> None:
    built = listing(method("fp8"), method("novel"))
    assert isinstance(judged(REGISTERED, quantized(quantization("fp8"), built, "novel")), Unknown)
    assert isinstance(judged(REGISTERED, quantized(quantization("fp8"), built, "other")), No)


def test_a_build_without_any_quantization_says_no() -> None:
    assert isinstance(judged(REGISTERED, quantized(quantization("awq", INT4), listing())), No)


def test_wish_is_kept_apart_from_the_default() -> None:
    assert Wish().quantization is None
