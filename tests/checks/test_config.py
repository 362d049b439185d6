"""config-parsable, transformers-satisfied and remote-code-not-needed, every branch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from small_world import (
    TABLE,
    TRUSTED,
    SmallHistory,
    SmallTable,
    build,
    case,
    model,
    ruling,
    seen,
    shim,
    small_class,
    transformers,
)

from canserve.checks.config import PARSABLE, REMOTE, SATISFIED
from canserve.checks.gates import Passing, condition, spans
from canserve.facts import Cause, Known, Missing
from canserve.subjects.build import Build, Site
from canserve.verdict import No, Skipped, Unknown, Yes

AUTO = Known({"AutoConfig": "configuration.Config"}, seen("auto_map"))
MISSING = Missing(Cause.UNREADABLE, "cannot be read", seen())


def types(**by_version: str) -> SmallTable:
    return SmallTable({v.replace("_", "."): frozenset(t.split()) for v, t in by_version.items()})


@pytest.mark.parametrize(
    ("table", "expected", "needs"),
    [
        (types(**{"4_0": "new", "5_0": "new"}), Yes, ()),
        (types(**{"4_0": "old", "5_0": "new"}), Yes, ("transformers>=5.0",)),
        (types(**{"4_0": "new", "5_0": "old"}), Yes, ("transformers==4.0",)),
        (types(**{"4_0": "old", "5_0": "old"}), No, ()),
    ],
)
def test_all_some_and_none_of_the_allowed_releases(table: Any, expected: type, needs: Any) -> None:
    one = case(model(model_type="new"), build(transformers=transformers(table=table)))
    verdict = ruling(PARSABLE, one)
    assert isinstance(verdict, expected)
    if isinstance(verdict, Yes):
        assert verdict.needs == needs


def test_a_type_known_to_the_engine_only_is_a_yes() -> None:
    shims = build(config_shims=Known({"new": shim("new")}, seen()))
    assert isinstance(ruling(PARSABLE, case(model(model_type="new"), shims)), Yes)
    fixed = build(config_fixups=Known({"new": Site("eng/config.py", 3)}, seen()))
    assert isinstance(ruling(PARSABLE, case(model(model_type="new"), fixed)), Yes)


def test_unreadable_shims_are_unknown_even_if_transformers_lacks_the_type() -> None:
    assert isinstance(ruling(PARSABLE, case(model(model_type="new"), build(config_shims=MISSING))), Unknown)


def test_a_requirement_that_shuts_the_first_release_out_is_a_no_that_names_it() -> None:
    table = types(**{"4_0": "old", "5_0": "new"})
    shut = build(transformers=transformers("<5", table=table))
    verdict = ruling(
        PARSABLE, case(model(model_type="new"), shut, history=SmallHistory(parsing={"new": "2.0"}))
    )
    assert isinstance(verdict, No)
    assert "eng>=2.0" in verdict.fix
    assert "transformers 5.0 is the first" in verdict.fix


def test_an_installed_release_is_the_only_candidate() -> None:
    table = types(**{"4_0": "old", "5_0": "new"})
    old = build(transformers=transformers(installed="4.0", table=table))
    assert isinstance(ruling(PARSABLE, case(model(model_type="new"), old)), No)
    unknown = build(transformers=transformers(installed="6.0", table=table))
    assert isinstance(ruling(PARSABLE, case(model(model_type="new"), unknown)), Unknown)


def test_remote_configuration_is_unknown_until_trusted() -> None:
    remote = model(model_type="new", auto_map=AUTO)
    assert isinstance(ruling(PARSABLE, case(remote)), Unknown)
    assert isinstance(ruling(PARSABLE, case(remote, wish=TRUSTED)), Yes)
    assert isinstance(ruling(REMOTE, case(remote)), Unknown)
    assert isinstance(ruling(REMOTE, case(remote, wish=TRUSTED)), Yes)


def test_code_that_is_not_needed_does_not_count_against_a_build() -> None:
    assert isinstance(ruling(REMOTE, case(model(auto_map=AUTO))), Yes)
    assert isinstance(ruling(REMOTE, case()), Yes)


def test_an_architecture_may_stand_for_a_type() -> None:
    named = build(architecture_types=Known({"SmallForCausalLM": "small"}, seen()))
    assert isinstance(ruling(PARSABLE, case(model(model_type="wrong"), named)), Yes)
    assert isinstance(ruling(PARSABLE, case(model(model_type="wrong"))), No)


def test_no_model_type_is_unknown() -> None:
    assert isinstance(ruling(PARSABLE, case(model(model_type=None))), Unknown)


def test_params_json_needs_the_engine_s_own_parser() -> None:
    mistral = model(config_format=Known("mistral", seen()))
    assert isinstance(ruling(PARSABLE, case(mistral)), No)
    able = build(load_formats=Known(("mistral",), seen()))
    assert isinstance(ruling(PARSABLE, case(mistral, able)), Yes)


def test_gates_must_open_for_one_and_the_same_release() -> None:
    table = SmallTable({"4.0": frozenset({"small"}), "5.0": frozenset()}, lacks={"4.0": frozenset({"Thing"})})
    one = build(
        classes={"SmallForCausalLM": Known(small_class("Thing"), seen())},
        transformers=transformers(table=table),
    )
    verdict = ruling(SATISFIED, case(the_build=one))
    assert isinstance(verdict, No)
    assert "Thing" in verdict.because
    assert "small" in verdict.because


@pytest.mark.parametrize("requirement", [">99", None])
def test_a_requirement_that_no_indexed_release_meets_proves_nothing(requirement: str | None) -> None:
    newer = build(transformers=transformers(requirement))
    assert isinstance(ruling(SATISFIED, case(the_build=newer)), Unknown)
    assert isinstance(ruling(PARSABLE, case(the_build=newer)), Unknown)


def test_an_installed_release_outside_the_requirement_is_unknown() -> None:
    assert isinstance(
        ruling(SATISFIED, case(the_build=build(transformers=transformers("<5", "5.0.0")))), Unknown
    )
    assert isinstance(ruling(SATISFIED, case(the_build=build(transformers=transformers("<5", "4.1.0")))), Yes)


def test_gguf_has_no_config_to_parse() -> None:
    assert isinstance(PARSABLE.judge(case(model(gguf_architecture=Known("llama", seen())))), Skipped)


def test_spans_and_conditions_read_well() -> None:
    order = ("1", "2", "3", "4")
    assert spans(("1", "2", "4"), order) == "1 to 2, 4"
    assert spans((), order) == "none"
    assert condition(Passing(order, frozenset(order))) == ()
    assert condition(Passing(order, frozenset("34"))) == ("transformers>=3",)
    assert condition(Passing(order, frozenset("14"))) == ("transformers>=4",)
    assert condition(Passing(order, frozenset("23"))) == ("transformers==3",)


def test_the_table_of_the_small_world_knows_the_small_type() -> None:
    assert all("small" in TABLE.config_types(v) for v in TABLE.versions)


def test_a_bare_config_that_names_no_quantization_is_skipped_not_passed() -> None:
    from canserve.checks.kv_cache import CHECK as KV_CACHE
    from canserve.checks.quantization import CHECKS
    from canserve.subjects.model import ONLY_CONFIG

    bare = case(model(quantization=ONLY_CONFIG))
    for check in (*CHECKS, KV_CACHE):
        assert isinstance(check.judge(bare), Skipped), check.name


GEMMA = "Gemma4ForConditionalGeneration"


def gemma(one: Build, release: str) -> Build:
    """The small build as a release of vLLM that registers the class a rule names."""
    assert isinstance(one.registry, Known)
    return replace(
        one,
        identity=replace(one.identity, engine="vllm", version=Known(release, seen())),
        registry=Known({GEMMA: replace(one.registry.value["SmallForCausalLM"], architecture=GEMMA)}, seen()),
        classes={GEMMA: Known(small_class(), seen())},
    )


@pytest.mark.parametrize(
    ("release", "installed", "expected"),
    [
        ("0.27.1", "5.15.0", No),
        ("0.27.1", "5.14.1", Yes),
        ("0.28.0", "5.15.0", Yes),
        ("nightly", "5.15.0", Unknown),
    ],
)
def test_a_pair_known_to_fail_shuts_a_gate_of_that_transformers_only(
    release: str, installed: str, expected: type
) -> None:
    table = types(**{"5_14_1": "small", "5_15_0": "small"})
    one = build(transformers=transformers(">=5", installed, table=table))
    listed = gemma(one, release)
    assert isinstance(ruling(SATISFIED, case(model(GEMMA), listed)), expected)


def test_of_a_range_the_releases_known_to_fail_are_left_out() -> None:
    table = types(**{"5_14_1": "small", "5_15_0": "small"})
    listed = gemma(build(transformers=transformers(">=5", table=table)), "0.27.1")
    verdict = ruling(SATISFIED, case(model(GEMMA), listed))
    assert isinstance(verdict, Yes)
    assert verdict.needs == ("transformers==5.14.1",)


def test_only_gates_that_are_shut_are_named() -> None:
    table = types(**{"5_15_0": "small"})
    verdict = ruling(
        SATISFIED, case(model(GEMMA), gemma(build(transformers=transformers(table=table)), "0.27.1"))
    )
    assert isinstance(verdict, No)
    assert "head_dim" in verdict.because
    assert "not in transformers" not in verdict.because
