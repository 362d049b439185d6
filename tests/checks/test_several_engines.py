"""Builds with several engines in them: who serves the class, who takes its weights, what has to be asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from quant_world import gpu
from small_world import TRUSTED, SmallTable, build, case, model, ruling, seen, small_class
from small_world import transformers as with_transformers

from canserve.checks.architecture import MODULE_PRESENT, REGISTERED
from canserve.checks.case import Case, Wish
from canserve.checks.config import PARSABLE, REMOTE, SATISFIED
from canserve.checks.flags import CHECK as FLAGS
from canserve.checks.kv_cache import KV_CACHE
from canserve.checks.machine.capability import CAPABILITY
from canserve.checks.quantization.registered import REGISTERED as QUANTIZATION
from canserve.facts import Cause, Fact, Known, Missing
from canserve.subjects.build import (
    AutoMapRule,
    Build,
    Demand,
    Flag,
    ModelClass,
    QuantMethod,
    Registered,
    Site,
    Taker,
)
from canserve.subjects.model import Quantization
from canserve.verdict import No, Unknown, Verdict, Yes

FAST, FULL = "fast", "full"
AT = Site("eng/x.py", 5)
AWQ = QuantMethod(
    "awq", None, Known(None, seen()), AT,
    takers=(Taker(FAST, (Demand("group_size", (128,), 128),)), Taker(FULL, (), "--backend full")),
)  # fmt: skip


def serving(*backends: str, **facts: Any) -> Build:
    row = Registered("SmallForCausalLM", "eng.models.small", "Small", "text", AT, (), backends)
    fields = {"registry": Known({row.architecture: row}, seen()), "quantization": Known({"awq": AWQ}, seen())}
    return build(**(fields | facts))


def stored(method: str = "awq", source: str = "config.json: quantization_config", **raw: Any) -> Quantization:
    said = {"quant_method": method, **raw}
    return Quantization(method, method, source, (), (), None, said)


def judged(
    built: Build, quantization: Quantization, flags: Mapping[str, str | None] | None = None
) -> Verdict:
    the_model = model(quantization=Known(quantization, seen()))
    return ruling(QUANTIZATION, case(the_model, built, wish=Wish(flags=flags or {})))


def test_the_answer_names_the_engines() -> None:
    verdict = ruling(REGISTERED, case(the_build=serving(FAST, FULL)))
    assert isinstance(verdict, Yes)
    assert "for fast and full" in verdict.because


ONLY = Known({FULL: "--backend full"}, seen())


def test_a_flag_may_leave_an_engine_that_does_not_have_the_class() -> None:
    flags = Wish(flags={"--backend": "full"})
    verdict = ruling(REGISTERED, case(the_build=serving(FAST, engine_flags=ONLY), wish=flags))
    assert isinstance(verdict, No)
    assert verdict.because == "SmallForCausalLM is registered for fast, not for full"
    assert verdict.fix == "leave --backend full out"
    both = ruling(REGISTERED, case(the_build=serving(FAST, FULL, engine_flags=ONLY), wish=flags))
    assert isinstance(both, Yes)
    assert both.because.endswith("for full")
    other = Wish(flags={"--backend": "fast"})
    assert isinstance(ruling(REGISTERED, case(the_build=serving(FULL, engine_flags=ONLY), wish=other)), Yes)


def test_only_the_engine_that_a_flag_leaves_is_asked_about_weights() -> None:
    only = replace(AWQ, takers=AWQ.takers[:1])
    built = serving(FAST, FULL, quantization=Known({"awq": only}, seen()), engine_flags=ONLY)
    assert isinstance(judged(built, stored()), Yes)
    assert isinstance(judged(built, stored(), {"--backend": "full"}), No)


@pytest.mark.parametrize(
    "backends, flag, expected, needs",
    [
        ((FAST, FULL), None, Yes, ("--backend full",)),
        ((FAST, FULL), "full", Yes, ()),
        ((FULL,), None, Yes, ()),
        ((FULL, FAST), None, Yes, ()),
        ((FAST,), None, No, None),
    ],
)
def test_engines_that_take_the_cache(
    backends: tuple[str, ...], flag: str | None, expected: type[Verdict], needs: tuple[str, ...] | None
) -> None:
    built = serving(
        *backends,
        kv_cache_dtypes=Known(("auto", "int8", "fp8"), seen()),
        kv_cache_engines=Known({"fp8": (FULL,)}, seen()),
        engine_flags=ONLY,
    )
    wish = Wish(flags={"--backend": flag} if flag else {}, kv_cache_dtype="fp8")
    verdict = ruling(KV_CACHE, case(the_build=built, wish=wish))
    assert isinstance(verdict, expected)
    if isinstance(verdict, Yes):
        assert verdict.needs == needs
    else:
        assert "fast does not take a fp8 cache" in verdict.because
    other = replace(wish, kv_cache_dtype="int8")
    assert isinstance(ruling(KV_CACHE, case(the_build=built, wish=other)), Yes)


def test_the_engine_that_comes_first_takes_what_it_can() -> None:
    verdict = judged(serving(FAST, FULL), stored())
    assert isinstance(verdict, Yes)
    assert verdict.needs == ()
    assert "fast" in verdict.because


def test_the_next_one_has_to_be_asked_for() -> None:
    verdict = judged(serving(FAST, FULL), stored(group_size=64))
    assert isinstance(verdict, Yes)
    assert verdict.needs == ("--backend full",)
    assert "group_size 128 (the checkpoint has 64)" in verdict.because
    asked = judged(serving(FAST, FULL), stored(group_size=64), {"--backend": "full"})
    assert isinstance(asked, Yes)
    assert asked.needs == ()


def test_no_engine_that_serves_the_class_takes_the_weights() -> None:
    verdict = judged(serving(FAST), stored(group_size=64))
    assert isinstance(verdict, No)
    assert "group_size" in verdict.because
    only = replace(AWQ, takers=AWQ.takers[:1])
    other = judged(serving(FULL, quantization=Known({"awq": only}, seen())), stored())
    assert isinstance(other, No)
    assert "full does not take awq" in other.because


def test_an_engine_may_step_back_by_itself() -> None:
    method = replace(AWQ, takers=(Taker(FULL),))
    verdict = judged(serving(FAST, FULL, quantization=Known({"awq": method}, seen())), stored())
    assert isinstance(verdict, Yes)
    assert verdict.needs == ()


def test_what_is_decided_at_run_time_is_unknown() -> None:
    method = replace(AWQ, takers=(Taker(FULL, guards=("only experts are quantized",)),))
    assert isinstance(judged(serving(FULL, quantization=Known({"awq": method}, seen())), stored()), Unknown)


@pytest.mark.parametrize(
    "demand, raw, met",
    [
        (Demand("group_size", (128,), 128), {}, True),
        (Demand("group_size", (128,), 128), {"group_size": 0}, True),
        (Demand("group_size", (128,), 128), {"group_size": -1}, False),
        (Demand("desc_act", (False,), False), {"desc_act": True}, False),
        (Demand("desc_act", (False,), False), {}, True),
        (Demand("sym", (True,), True), {"sym": False}, False),
        (Demand("version", ("gemm",), None), {"version": "GEMM"}, True),
        (Demand("version", ("gemm",), None), {}, False),
        (Demand("weight_block_size", ((128, 128),), None), {"weight_block_size": [128, 128]}, True),
        (Demand("weight_block_size", ((128, 128),), None), {}, False),
        (Demand("weight_block_size", ((128, 128), None), None), {}, True),
        (Demand("group_size", (128,), 128), {"group_size": {"a": [1]}}, False),
    ],
)
def test_demands(demand: Demand, raw: dict[str, Any], met: bool) -> None:
    method = replace(AWQ, takers=(Taker(FAST, (demand,)),))
    verdict = judged(serving(FAST, quantization=Known({"awq": method}, seen())), stored(**raw))
    assert isinstance(verdict, Yes if met else No)


# -- names that are looked up as config.json has them


LITERAL = Known(Site("eng/auto.py", 3), seen())


def test_other_names_of_a_format_do_not_count_where_the_name_is_looked_up() -> None:
    alias = replace(stored("modelopt"), aliases=("awq",))
    assert isinstance(judged(serving(FAST), alias), Yes)
    verdict = judged(serving(FAST, literal_methods=LITERAL), alias)
    assert isinstance(verdict, No)
    assert "modelopt" in verdict.because


def test_what_stands_in_another_file_is_not_seen() -> None:
    beside = stored("awq", source="hf_quant_config.json")
    assert isinstance(judged(serving(FAST), beside), Yes)
    verdict = judged(serving(FAST, literal_methods=LITERAL), beside)
    assert isinstance(verdict, No)
    assert "which it has not" in verdict.because


def test_bitsandbytes_is_told_by_its_switches() -> None:
    bnb = replace(stored("bitsandbytes"), raw={"load_in_4bit": True})
    method = QuantMethod("bitsandbytes", "Bnb", Known(None, seen()), AT)
    table = Known({"bitsandbytes": method}, seen())
    assert isinstance(judged(serving(FAST, quantization=table, literal_methods=LITERAL), bnb), Yes)
    silent = replace(bnb, raw={})
    assert isinstance(judged(serving(FAST, quantization=table, literal_methods=LITERAL), silent), No)


# -- classes that auto_map names


RULE = Known(AutoMapRule("AutoModelForCausalLM", (FULL,), Site("eng/patch.py", 9)), seen())


def mapped(name: str, *backends: str, architecture: str = "SmallForCausalLM") -> Case:
    row = Registered("SmallForCausalLM", "eng.models.small", "Small", "text", AT, (), backends)
    built = build(registry=Known({row.architecture: row}, seen()), auto_map_rule=RULE)
    auto_map = Known({"AutoModelForCausalLM": f"modeling_small.{name}"}, seen())
    return case(model(architecture, auto_map=auto_map), built)


def test_the_class_that_auto_map_names_counts_first() -> None:
    verdict = ruling(REGISTERED, mapped("SmallForCausalLM", FULL, architecture="OtherModel"))
    assert isinstance(verdict, Yes)
    assert "SmallForCausalLM" in verdict.because


def test_an_engine_that_goes_by_auto_map_does_not_fall_back_on_architectures() -> None:
    assert isinstance(ruling(REGISTERED, mapped("Unknown", FULL)), No)
    assert isinstance(ruling(REGISTERED, mapped("Unknown", FAST, FULL)), Yes)  # fast goes by architectures


# -- configs that nobody knows, and code that is run anyway


PLAIN = Known(Site("eng/configs.py", 7), seen())
STRANGE = SmallTable({"4.0.0": frozenset({"other"})})


def test_a_plain_config_is_neither_yes_nor_no() -> None:
    built = build(plain_config=PLAIN, transformers=with_transformers(table=STRANGE))
    assert isinstance(ruling(PARSABLE, case(the_build=built)), Unknown)
    assert isinstance(ruling(SATISFIED, case(the_build=built)), Unknown)
    without = build(plain_config=Known(None, seen()), transformers=with_transformers(table=STRANGE))
    assert isinstance(ruling(PARSABLE, case(the_build=without)), No)


def test_code_that_is_run_unasked_parses_the_config_and_has_to_be_read() -> None:
    own = model(auto_map=Known({"AutoConfig": "configuration_small.SmallConfig"}, seen()))
    trusting = build(trusts_code=PLAIN, transformers=with_transformers(table=STRANGE))
    assert isinstance(ruling(PARSABLE, case(own, trusting)), Yes)
    verdict = ruling(REMOTE, case(own, trusting))
    assert isinstance(verdict, Unknown)
    assert "without asking" in verdict.because
    assert isinstance(ruling(REMOTE, case(own, trusting, wish=TRUSTED)), Yes)
    asking = build(trusts_code=Known(None, seen()), transformers=with_transformers(table=STRANGE))
    assert isinstance(ruling(PARSABLE, case(own, asking)), Unknown)


def test_a_flag_for_what_is_done_anyway_is_no_wrong_flag() -> None:
    flags = Known({"--port": Flag("--port", None, AT)}, seen())
    wish = Wish(flags={"--trust-remote-code": None}, trust_remote_code=True)
    assert isinstance(ruling(FLAGS, case(the_build=build(flags=flags, trusts_code=PLAIN), wish=wish)), Yes)
    asking = build(flags=flags, trusts_code=Known(None, seen()))
    assert isinstance(ruling(FLAGS, case(the_build=asking, wish=wish)), No)


def test_a_fallback_without_a_test_has_no_reason_to_give() -> None:
    from small_world import FALLBACK

    remote_only = Known(replace(FALLBACK, accepts=()), seen())
    verdict = ruling(REGISTERED, case(model("Nothing"), build(fallback=remote_only)))
    assert isinstance(verdict, No)
    assert "fall back on" not in verdict.because


def test_the_module_of_the_named_class_is_the_one_that_is_looked_at() -> None:
    one = mapped("SmallForCausalLM", FULL, architecture="OtherModel")
    classes: dict[str, Fact[ModelClass | None]] = {"SmallForCausalLM": Known(small_class(), seen())}
    assert isinstance(ruling(MODULE_PRESENT, replace(one, build=replace(one.build, classes=classes))), Yes)


def test_a_build_that_is_the_library_itself_names_the_library_s_releases() -> None:
    classes = {"5.0.0": {"LaterForCausalLM": frozenset({"exists"})}}
    table = SmallTable({v: frozenset({"small"}) for v in ("4.0.0", "5.0.0rc1", "5.0.0")}, classes=classes)
    itself = with_transformers("==1.0", "1.0", table)
    verdict = ruling(REGISTERED, case(model("LaterForCausalLM"), build(transformers=itself)))
    assert isinstance(verdict, No)
    assert verdict.fix == "use eng>=5.0.0, the first release that lists it"
    other = ruling(
        REGISTERED, case(model("LaterForCausalLM"), build(transformers=with_transformers(table=table)))
    )
    assert isinstance(other, No)
    assert "no indexed release of eng" in other.fix


@pytest.mark.parametrize(
    "backends, capability, expected",
    [
        (("turbomind", FULL), "9.0", Yes),
        (("turbomind",), "7.0", Yes),
        (("turbomind",), "6.1", Unknown),
        ((FULL,), "9.0", Unknown),
    ],
)
def test_what_is_said_of_an_engine_whose_code_sets_no_minimum(
    backends: tuple[str, ...], capability: str, expected: type[Verdict]
) -> None:
    takers = Taker("turbomind"), Taker(FULL)
    unstated = replace(AWQ, min_capability=Missing(Cause.UNAVAILABLE, "nowhere"), takers=takers)
    built = serving(*backends, quantization=Known({"awq": unstated}, seen()))
    named = replace(built.identity, engine="lmdeploy", version=Known("0.12.0"))
    the_model = model(quantization=Known(stored(), seen()))
    one = case(the_model, replace(built, identity=named), machine=gpu(capability))
    assert isinstance(ruling(CAPABILITY, one), expected)
