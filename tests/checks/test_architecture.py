"""architecture-registered and architecture-module-present, every branch."""

from __future__ import annotations

from typing import Any

import pytest
from small_world import (
    FALLBACK,
    TABLE,
    TRUSTED,
    SmallHistory,
    SmallTable,
    build,
    case,
    model,
    ruling,
    seen,
    small_class,
)
from small_world import transformers as with_transformers

from canserve.checks.architecture import MODULE_PRESENT, REGISTERED
from canserve.checks.case import Wish
from canserve.facts import Cause, Known, Missing
from canserve.verdict import Finding, No, Skipped, Unknown, Yes

UNREADABLE = Missing(Cause.UNREADABLE, "unknown form of registry", seen())


def test_a_registered_class_is_a_yes_that_cites_its_row() -> None:
    finding = REGISTERED.judge(case())
    assert isinstance(finding, Finding)
    assert isinstance(finding.verdict, Yes)
    assert "eng/registry.py:7" in [e.how for e in finding.evidence]


def test_an_absent_class_names_near_ones_and_the_first_release() -> None:
    history = SmallHistory({"SmalForCausalLM": ("0.9", "1.2", "1.3")})
    verdict = ruling(REGISTERED, case(model("SmalForCausalLM"), history=history))
    assert isinstance(verdict, No)
    assert "SmallForCausalLM" in verdict.because
    assert verdict.fix == "use eng>=1.2, the first release that lists it again (it was dropped after 0.9)"


def test_a_dropped_class_names_its_last_release() -> None:
    verdict = ruling(REGISTERED, case(model("Old"), history=SmallHistory({"Old": ("0.7", "0.8")})))
    assert isinstance(verdict, No)
    assert verdict.fix == "use eng==0.8, the last release that lists it"
    named = ruling(REGISTERED, case(model("Old"), build(dropped=Known({"Old": "0.5"}, seen()))))
    assert isinstance(named, No)
    assert "eng==0.5" in named.fix


def test_an_unknown_form_is_never_a_no() -> None:
    assert isinstance(ruling(REGISTERED, case(the_build=build(registry=UNREADABLE))), Unknown)


def test_a_registry_that_shrank_by_more_than_a_tenth_is_unknown_not_no() -> None:
    one = case(model("Other"), history=SmallHistory(neighbour=2))
    assert isinstance(ruling(REGISTERED, one), Unknown)
    assert isinstance(ruling(REGISTERED, case(model("Other"), history=SmallHistory(neighbour=1))), No)


def test_an_installed_plugin_may_add_the_class() -> None:
    plugged = build(plugins=Known(("eng.plugins: extra = extra:register",), seen()))
    assert isinstance(ruling(REGISTERED, case(model("Other"), plugged)), Unknown)


def test_a_class_that_a_plugin_serves_says_which() -> None:
    verdict = ruling(REGISTERED, case(model("Other"), build(elsewhere=Known({"Other": "eng-other"}, seen()))))
    assert isinstance(verdict, No)
    assert "eng-other" in verdict.fix


@pytest.mark.parametrize(
    ("tests", "expected"),
    [
        ({"5.0.0": frozenset({"supports_attention_backend"})}, Yes),
        ({"5.0.0": frozenset({"supports_flex_attn"})}, No),
        ({}, No),
    ],
)
def test_the_transformers_back_end_needs_a_compatible_class(tests: Any, expected: type) -> None:
    lacks = {version: frozenset({"Other"}) for version in TABLE.types if version not in tests}
    table = SmallTable(TABLE.types, lacks, classes={v: {"Other": t} for v, t in tests.items()})
    falling = build(fallback=Known(FALLBACK, seen()), transformers=with_transformers(table=table))
    verdict = ruling(REGISTERED, case(model("Other"), falling))
    assert isinstance(verdict, expected)
    if isinstance(verdict, Yes):
        assert verdict.needs == ("transformers>=5.0.0",)


def test_a_class_that_is_there_but_was_not_read_is_not_refused() -> None:
    table = SmallTable(TABLE.types)  # it has every name, and knows nothing of any class
    falling = build(fallback=Known(FALLBACK, seen()), transformers=with_transformers(table=table))
    assert isinstance(ruling(REGISTERED, case(model("Other"), falling)), Unknown)


def test_a_missing_table_leaves_an_unlisted_class_unknown() -> None:
    falling = build(
        fallback=Known(FALLBACK, seen()),
        transformers=with_transformers(installed="9.9.9"),
    )
    assert isinstance(ruling(REGISTERED, case(model("Other"), falling)), Unknown)


def test_refusing_dropped_names_comes_before_the_fallback() -> None:
    from dataclasses import replace

    table = SmallTable(TABLE.types, classes={"5.0.0": {"Old": frozenset({"supports_attention_backend"})}})
    falling = build(
        fallback=Known(replace(FALLBACK, refuses_dropped=True), seen()),
        dropped=Known({"Old": "0.5"}, seen()),
        transformers=with_transformers(table=table),
    )
    assert isinstance(ruling(REGISTERED, case(model("Old"), falling)), No)


def test_a_suffix_is_converted() -> None:
    falling = build(fallback=Known(FALLBACK, seen()))
    assert isinstance(ruling(REGISTERED, case(model("SmallForSequenceClassification"), falling)), Yes)


def test_the_repository_s_own_class_is_never_a_yes() -> None:
    remote = model("Other", auto_map=Known({"AutoModel": "modeling.Other"}, seen()))
    falling = build(fallback=Known(FALLBACK, seen()))
    assert isinstance(ruling(REGISTERED, case(remote, falling)), Unknown)
    assert isinstance(ruling(REGISTERED, case(remote, falling, wish=TRUSTED)), Unknown)


def test_asking_for_native_code_only_closes_the_fallback() -> None:
    table = SmallTable(TABLE.types, classes={"5.0.0": {"Other": frozenset({"supports_attention_backend"})}})
    falling = build(fallback=Known(FALLBACK, seen()), transformers=with_transformers(table=table))
    assert isinstance(ruling(REGISTERED, case(model("Other"), falling, wish=Wish(model_impl="vllm"))), No)


def test_no_architecture_is_filled_from_the_model_type() -> None:
    assert isinstance(ruling(REGISTERED, case(model(""))), Yes)
    assert isinstance(ruling(REGISTERED, case(model("", "strange"))), Unknown)
    empty = build(registry=Known({}, seen("0 architectures")))
    assert isinstance(ruling(REGISTERED, case(model(""), empty)), Unknown), (
        "a guessed class proves no absence"
    )


def test_gguf_is_judged_by_transformers_when_the_build_leaves_it_to_it() -> None:
    verdict = ruling(REGISTERED, case(model(gguf_architecture=Known("llama", seen()))))
    assert isinstance(verdict, Yes)
    assert verdict.needs == ("transformers>=4.1.0",)
    assert isinstance(ruling(REGISTERED, case(model(gguf_architecture=Known("newer", seen())))), No)


def test_a_registered_class_that_does_not_exist_is_a_no() -> None:
    hollow = build(classes={"SmallForCausalLM": Known(None, seen())})
    assert isinstance(ruling(MODULE_PRESENT, case(the_build=hollow)), No)


def test_a_broken_import_inside_the_engine_is_a_no() -> None:
    broken = small_class(broken=("eng.kernels.fused (eng/models/small.py:4)",))
    one = build(classes={"SmallForCausalLM": Known(broken, seen())})
    assert isinstance(ruling(MODULE_PRESENT, case(the_build=one)), No)


@pytest.mark.parametrize(
    ("lacks", "expected", "needs"),
    [
        ({}, Yes, ()),
        ({"5.0.0": frozenset({"Thing"})}, Yes, ("transformers==4.1.0",)),
        ({"4.0.0": frozenset({"Thing"})}, Yes, ("transformers>=4.1.0",)),
        ({v: frozenset({"Thing"}) for v in TABLE.types}, No, ()),
    ],
)
def test_imports_are_judged_against_every_allowed_release(lacks: Any, expected: type, needs: Any) -> None:
    one = build(
        classes={"SmallForCausalLM": Known(small_class("Thing"), seen())},
        transformers=with_transformers(table=SmallTable(TABLE.types, lacks)),
    )
    verdict = ruling(MODULE_PRESENT, case(the_build=one))
    assert isinstance(verdict, expected)
    if isinstance(verdict, Yes):
        assert verdict.needs == needs
    if isinstance(verdict, No):
        assert "Thing" in verdict.because


def test_an_unrecorded_name_is_unknown_not_yes() -> None:
    one = build(
        classes={"SmallForCausalLM": Known(small_class("Thing"), seen())},
        transformers=with_transformers(table=SmallTable(TABLE.types, unrecorded=frozenset({"Thing"}))),
    )
    assert isinstance(ruling(MODULE_PRESENT, case(the_build=one)), Unknown)


def test_the_module_of_an_unregistered_class_is_not_judged() -> None:
    assert isinstance(MODULE_PRESENT.judge(case(model("Other"))), Skipped)


def test_an_engine_may_put_in_another_architecture_by_model_type() -> None:
    rewriting = build(architecture_rewrites=Known({"small": "SmallForCausalLM"}, seen("rewrites")))
    assert isinstance(ruling(REGISTERED, case(model("Unlisted"), rewriting)), Yes)
    assert isinstance(ruling(REGISTERED, case(model("Unlisted"))), No)
